/* assets_data.c - the page's gzipped files, as the build made them in PAGE_DIR (CMakeLists.txt). */

#define ASSET(name, file)                             \
	__asm__(".section .rodata\n"                  \
		".global web_" name "_begin\n"        \
		".global web_" name "_end\n"          \
		".balign 8\n"                         \
		"web_" name "_begin:\n"               \
		".incbin \"" PAGE_DIR "/" file "\"\n" \
		"web_" name "_end:\n"                 \
		".byte 0\n"                           \
		".previous\n")

ASSET("index", "index.html.gz");
ASSET("js", "app.js.gz");
ASSET("css", "app.css.gz");
ASSET("report", "report.html.gz");
