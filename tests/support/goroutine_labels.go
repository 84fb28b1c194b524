// Goroutines in functions that are known by their labels: what is seen in one must have just those.
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

var sink uint64

//go:noinline
func spin() {
	for i := uint64(0); i < 40000; i++ {
		sink += i * i
	}
}

//go:noinline
func spinNone() { spin() }

//go:noinline
func spinParent() { spin() }

//go:noinline
func spinChild() { spin() }

//go:noinline
func spinOne() { spin() }

//go:noinline
func spinTwo() { spin() }

//go:noinline
func spinInner() { spin() }

//go:noinline
func spinLong() { spin() }

// They take turns on the same threads.
func forever(f func()) {
	for {
		f()
		runtime.Gosched()
	}
}

func main() {
	ctx := context.Background()
	go forever(spinNone)
	go pprof.Do(ctx, pprof.Labels("endpoint", "/x"), func(context.Context) {
		go forever(spinChild) // has them from its parent
		forever(spinParent)
	})
	go forever(func() { // set, changed, added to, removed
		pprof.Do(ctx, pprof.Labels("step", "one"), func(context.Context) { spinOne() })
		spinNone()
		pprof.Do(ctx, pprof.Labels("step", "two", "unit", "µs"), func(ctx context.Context) {
			pprof.Do(ctx, pprof.Labels("step", "three", "empty", ""), func(context.Context) { spinInner() })
			spinTwo()
		})
	})
	go pprof.Do(ctx, pprof.Labels(strings.Repeat("k", 100), "x"+strings.Repeat("é", 200)), func(context.Context) { forever(spinLong) })
	os.Stdout.WriteString("spinning\n")
	time.Sleep(10 * time.Minute)
}
