// Templates, lambdas, exceptions, virtual calls and the library's inlined code.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace shapes
{
struct shape {
	virtual ~shape() = default;
	virtual int area() const = 0;
};

template <int N> struct square : shape {
	int side;
	explicit square(int s) : side(s) {}
	int area() const override { return side * side * N; }
};

template <typename F> static int apply(const std::vector<std::unique_ptr<shape>> &all, F f)
{
	int sum = 0;

	for (const auto &s : all)
		sum += f(*s);
	return sum;
}
} // namespace shapes

static int count_words(const std::string &text)
{
	std::map<std::string, int> seen;
	std::string word;

	for (char c : text) {
		if (c != ' ') {
			word += c;
			continue;
		}
		seen[word]++;
		word.clear();
	}
	return static_cast<int>(seen.size());
}

static int guarded(int n)
{
	try {
		if (n > 3)
			throw std::runtime_error("too many");
		return n;
	} catch (const std::exception &e) {
		return static_cast<int>(std::string(e.what()).size());
	}
}

int main(int argc, char **argv)
{
	std::vector<std::unique_ptr<shapes::shape>> all;

	all.push_back(std::make_unique<shapes::square<1>>(argc));
	all.push_back(std::make_unique<shapes::square<2>>(argc + 1));
	std::sort(all.begin(), all.end(),
		  [](const auto &a, const auto &b) { return a->area() < b->area(); });
	std::printf("%d %d %d\n",
		    shapes::apply(all, [argc](const shapes::shape &s) { return s.area() + argc; }),
		    count_words(argv[0]), guarded(argc));
}
