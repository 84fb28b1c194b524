package main

import "fmt"

type price interface{ total(times int) uint64 }
type sale struct{ sink uint64 }

//go:noinline
func burn(times int) uint64 {
	sum := uint64(1)
	for i := 0; i < times; i++ {
		sum = sum*31 + uint64(i)
	}
	return sum
}

//go:noinline
func (s *sale) total(times int) uint64 { s.sink += burn(times); return s.sink }

//go:noinline
func recurse(n int, f func(int) uint64) uint64 {
	if n == 0 {
		return f(200000) ^ 1
	}
	return recurse(n-1, f) ^ 2
}

func inlined(p price, times int) uint64 { return p.total(times) ^ 3 }

//go:noinline
func work(p price) uint64 {
	return recurse(3, func(times int) uint64 { return inlined(p, times) ^ 4 })
}

func main() {
	fmt.Println("spinning")
	done := make(chan uint64)
	go func() {
		var p price = &sale{}
		for {
			work(p)
		}
	}()
	<-done
}
