#include <cstdio>
#include <functional>
#include <stdexcept>
#include <thread>

static volatile unsigned long sink;

namespace shop {
__attribute__((noinline)) void burn(unsigned long times) { for (unsigned long i = 0; i < times; i++) sink += i * sink + 1; }

struct Price { virtual ~Price() = default; virtual void total(unsigned long times) const = 0; };
struct Sale : Price {
	__attribute__((noinline)) void total(unsigned long times) const override { burn(times); sink++; }
};

template <int N> struct Tower { __attribute__((noinline)) static void climb(const Price &p) { Tower<N - 1>::climb(p); sink++; } };
template <> struct Tower<0> {
	__attribute__((noinline)) static void climb(const Price &p)
	{
		std::function<void(unsigned long)> call = [&p](unsigned long times) { p.total(times); sink++; };
		call(200000);
		sink++;
	}
};

__attribute__((noinline)) void deep_throw(int n)
{
	if (n == 0) throw std::runtime_error("sold out");
	deep_throw(n - 1);
	sink++;
}
__attribute__((noinline)) void in_handler(const std::exception &) { burn(200000); sink++; }
__attribute__((noinline)) void catches()
{
	try { deep_throw(5); } catch (const std::exception &e) { in_handler(e); }
	sink++;
}
} // namespace shop

int main()
{
	shop::Sale sale;
	puts("spinning");
	fflush(stdout);
	for (;;) {
		shop::Tower<3>::climb(sale);
		shop::catches();
	}
}
