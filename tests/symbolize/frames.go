// Prints what Go's own runtime knows of addresses of this program: the oracle of go_pclntab_test.c.
//
//	base ADDRESS                       of main.main
//	pc ADDRESS, then for each frame: f NAME FILE LINE
package main

import (
	"os"
	"reflect"
	"runtime"
	"strconv"
)

type shape interface{ area(int) int }
type square struct{ side int }

func (s *square) area(k int) int { return twice(s.side) * plus(k) }

func twice(a int) int { return plus(a) + a }
func plus(a int) int  { return a + len(os.Args) }

//go:noinline
func sum(shapes []shape) (n int) {
	for i, s := range shapes {
		n += twice(s.area(i)) + func(a int) int { return twice(a) }(i)
	}
	return n
}

func known(pc uintptr) bool { return runtime.FuncForPC(pc) != nil }

func main() {
	if sum([]shape{&square{3}}) == 0 {
		return
	}
	step, _ := strconv.Atoi(os.Args[1])
	base := reflect.ValueOf(main).Pointer()
	low, high := base, base
	for known(low - 64) {
		low -= 64
	}
	for known(high + 64) {
		high += 64
	}
	out := make([]byte, 0, 1<<20)
	out = append(out, "base "+strconv.FormatUint(uint64(base), 10)+"\n"...)
	for pc := low; pc < high; pc += uintptr(step) {
		if !known(pc) || pc == base || !known(pc+1) || runtime.FuncForPC(pc+1).Entry() == pc+1 {
			continue
		}
		out = append(out, "pc "+strconv.FormatUint(uint64(pc), 10)+"\n"...)
		// Inlined frames are only expanded where a caller follows.
		frames := runtime.CallersFrames([]uintptr{pc + 1, base + 1})
		for {
			f, more := frames.Next()
			if f.PC == base {
				break
			}
			out = append(out, "f "+f.Function+"\t"+f.File+"\t"+strconv.Itoa(f.Line)+"\n"...)
			if !more {
				break
			}
		}
	}
	os.Stdout.Write(out)
}
