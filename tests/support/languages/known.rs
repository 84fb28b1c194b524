use std::io::Write;
mod shop {
    pub trait Price { fn total(&self, times: u64) -> u64; }
    pub struct Sale;
    #[inline(never)]
    pub fn burn(times: u64) -> u64 {
        let mut sum = 0u64;
        for i in 0..times { unsafe { std::ptr::write_volatile(&mut sum, sum.wrapping_mul(31) + (i & 7)) } }
        sum
    }
    impl Price for Sale {
        #[inline(never)]
        fn total(&self, times: u64) -> u64 { burn(times) ^ 1 }
    }
    #[inline(never)]
    pub fn generic<T: Price + ?Sized>(price: &T, times: u64) -> u64 { price.total(times) ^ 2 }
    #[inline(never)]
    pub fn apply(f: &dyn Fn(u64) -> u64, n: u64) -> u64 { f(n) ^ 3 }
    #[inline(never)]
    pub fn recurse(n: u32, f: &dyn Fn(u64) -> u64) -> u64 {
        if n == 0 { apply(f, 200_000) ^ 4 } else { recurse(n - 1, f) ^ 5 }
    }
}
fn main() {
    let price: Box<dyn shop::Price> = Box::new(shop::Sale);
    println!("spinning");
    std::io::stdout().flush().unwrap();
    let mut sum = 0u64;
    loop {
        sum ^= shop::recurse(3, &|n| shop::generic(&*price, n) ^ 6);
        unsafe { std::ptr::write_volatile(&mut sum, sum) }
    }
}
