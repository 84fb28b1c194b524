
+process_cpu:cpu:nanoseconds:cpu:nanoseconds{a="b"} (0B 00000000000000000000000000000000Rab