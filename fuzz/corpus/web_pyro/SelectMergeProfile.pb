
+process_cpu:cpu:nanoseconds:cpu:nanoseconds{a="b"} 