// Traits, closures, generics and iterators: nearly everything is inlined.
use std::collections::HashMap;

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);

impl Shape for Square {
    fn area(&self) -> u64 {
        self.0 * self.0
    }
}

fn total(shapes: &[Box<dyn Shape>]) -> u64 {
    shapes.iter().map(|s| s.area()).filter(|a| a % 2 == 0).sum()
}

fn words(text: &str) -> HashMap<&str, usize> {
    let mut seen = HashMap::new();
    for word in text.split_whitespace() {
        *seen.entry(word).or_insert(0) += 1;
    }
    seen
}

fn main() {
    let n = std::env::args().count() as u64;
    let shapes: Vec<Box<dyn Shape>> = (0..10).map(|i| Box::new(Square(i + n)) as Box<dyn Shape>).collect();
    println!("{} {}", total(&shapes), words("a b a c").len());
}
