package main

/*
static volatile unsigned long sink;
__attribute__((noinline)) static void c_leaf(int times) { for (int i = 0; i < times; i++) sink += i; }
__attribute__((noinline)) static void c_entry(int times) { c_leaf(times); sink++; }
*/
import "C"
import "fmt"

//go:noinline
func calls() { C.c_entry(200000) }

func main() {
	fmt.Println("spinning")
	for {
		calls()
	}
}
