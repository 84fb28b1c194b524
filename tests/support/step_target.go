// step_target.go - what the single-step test of the unwinder steps through: main.work and all that it calls.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

type shape interface{ area() float64 }
type box struct{ a, b float64 }

func (b box) area() float64 { return b.a * b.b }

//go:noinline
func leaf(a, b uint64) uint64 { return a*31 + b }

//go:noinline
func deep(n uint64) uint64 {
	if n == 0 {
		return leaf(1, 2)
	}
	return deep(n-1)*3 + leaf(n, 7)
}

//go:noinline
func grow(n int) byte {
	var b [100000]byte
	b[n] = 1
	return b[n*7] + byte(leaf(1, 2))
}

//go:noinline
func large(n int) byte {
	var b [3000]byte
	b[n%3000] = 1
	return b[(n*7)%3000] + byte(leaf(1, 2))
}

//go:noinline
func work() uint64 {
	m := map[string]int{}
	s := deep(4)
	for i := 0; i < 3; i++ {
		m[fmt.Sprintf("k%d", i)] = i
	}
	var sh shape = box{2, 3}
	s += uint64(sh.area()) + uint64(large(int(s)))
	v := make([]byte, 5000)
	s += uint64(len(strings.Repeat("ab", len(v)/100)))
	defer func() { recover() }()
	s += uint64(time.Now().Unix() & 1)
	if len(m) > 2 {
		panic("x")
	}
	return s
}

func init() { runtime.LockOSThread() } // main stays on the first thread

func main() {
	fmt.Fprint(os.Stderr, "")
	grow(1) // no stack moves while it is watched
	work()
	os.Exit(0)
}
