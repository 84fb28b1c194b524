# arm64.cmake - the toolchain of the preset arm64: Debian's cross compiler over build/sysroot-arm64 (tools/sysroot makes it),
# and qemu-user to run what was built.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
get_filename_component(FLAMETAP_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-arm64 ABSOLUTE)
if(NOT EXISTS ${FLAMETAP_SYSROOT}/packages)
  message(FATAL_ERROR "build/sysroot-arm64 is not there: tools/sysroot arm64 makes it (apt downloads 60 MB)")
endif()
set(CMAKE_SYSROOT ${FLAMETAP_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_DIR} "")
set(ENV{PKG_CONFIG_LIBDIR} ${FLAMETAP_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${FLAMETAP_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${FLAMETAP_SYSROOT})
# Tests tell programs of this machine where the other one's files are by the same variable.
set(CMAKE_CROSSCOMPILING_EMULATOR /usr/bin/env QEMU_LD_PREFIX=${FLAMETAP_SYSROOT} qemu-aarch64)
