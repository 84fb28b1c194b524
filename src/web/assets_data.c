/* assets_data.c - the page's gzipped files, as the build made them in PAGE_DIR, and the description
 * of the API, OPENAPI (CMakeLists.txt). */

#define ASSET(name, path)                      \
	__asm__(".section .rodata\n"           \
		".global web_" name "_begin\n" \
		".global web_" name "_end\n"   \
		".balign 8\n"                  \
		"web_" name "_begin:\n"        \
		".incbin \"" path "\"\n"       \
		"web_" name "_end:\n"          \
		".byte 0\n"                    \
		".previous\n")

ASSET("index", PAGE_DIR "/index.html.gz");
ASSET("js", PAGE_DIR "/app.js.gz");
ASSET("css", PAGE_DIR "/app.css.gz");
ASSET("report", PAGE_DIR "/report.html.gz");
ASSET("openapi", OPENAPI);
