# flametap.cmake - compiler settings, and the functions that make a module with its tests and check the includes.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(FLAMETAP_FUZZ "build the fuzz targets (clang, libFuzzer)" OFF)
option(UI "embed the page: needs node and npm" OFF)
option(FLAMETAP_WERROR "warnings are errors: ./test and CI, not a desk" OFF)
set(FLAMETAP_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_compile_options(
  -Wall -Wextra -Wshadow -Wvla -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes
  -Wwrite-strings -Wundef -Wpointer-arith -fno-omit-frame-pointer -fno-strict-aliasing
  -include ${CMAKE_SOURCE_DIR}/src/base/banned.h)
add_compile_definitions(_GNU_SOURCE FLAMETAP_VERSION="${PROJECT_VERSION}")
add_link_options(-Wl,--as-needed)
if(FLAMETAP_WERROR)
  add_compile_options(-Werror)
endif()
if(FLAMETAP_SANITIZE)
  add_compile_options(-fsanitize=${FLAMETAP_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FLAMETAP_SANITIZE})
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(CMAKE_C_FLAGS_RELEASE "-O2 -g")  # NDEBUG stays off: our invariants are checked in every build
  add_compile_options(-D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE -ffunction-sections -fdata-sections)
  add_link_options(-pie -Wl,-z,relro,-z,now -Wl,--gc-sections -Wl,-O1)
  # Relative relocations as a bitmap: 0.13 MB less. The loader must know them, so only where this libc's does.
  include(CheckCSourceCompiles)
  include(CheckLinkerFlag)
  check_c_source_compiles("#include <features.h>
    #if !__GLIBC_PREREQ(2, 36)
    #error
    #endif
    int main(void) { return 0; }" FLAMETAP_LIBC_HAS_RELR)
  check_linker_flag(C -Wl,-z,pack-relative-relocs FLAMETAP_LINKER_HAS_RELR)
  if(FLAMETAP_LIBC_HAS_RELR AND FLAMETAP_LINKER_HAS_RELR)
    add_link_options(-Wl,-z,pack-relative-relocs)
  endif()
endif()

include(CTest)

# flametap_module(NAME name [RECURSE] [NO_THREADS] [EXCLUDE file...] [LIBS lib...] [PKGS pkg...])
# Makes the static library flametap_<name> of every .c file in the folder but *_test.c, and of each *_test.c a test
# program of its own (cmocka). LIBS are our modules and system libraries, PKGS are pkg-config names. NO_THREADS: a module
# that knows no threads has no tests in a build for ThreadSanitizer (FLAMETAP_TESTS_OF_<name> says whether it has them).
function(flametap_module)
  cmake_parse_arguments(M "RECURSE;NO_THREADS" "NAME" "EXCLUDE;LIBS;PKGS" ${ARGN})
  if(M_RECURSE)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS *.c)
  else()
    file(GLOB files CONFIGURE_DEPENDS *.c)
  endif()
  set(tests ${files})
  list(FILTER files EXCLUDE REGEX "_test\\.c$")
  list(FILTER tests INCLUDE REGEX "_test\\.c$")
  foreach(file ${M_EXCLUDE})
    list(REMOVE_ITEM files ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  if(NOT files)
    set(files ${CMAKE_SOURCE_DIR}/cmake/empty.c)
  endif()
  add_library(flametap_${M_NAME} STATIC ${files})
  target_include_directories(flametap_${M_NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(flametap_${M_NAME} PUBLIC ${M_LIBS} Threads::Threads m)
  foreach(pkg ${M_PKGS})
    string(MAKE_C_IDENTIFIER ${pkg} id)
    pkg_check_modules(PKG_${id} REQUIRED IMPORTED_TARGET ${pkg})
    target_link_libraries(flametap_${M_NAME} PUBLIC PkgConfig::PKG_${id})
  endforeach()
  set(with_tests ${BUILD_TESTING})
  if(M_NO_THREADS AND FLAMETAP_SANITIZE STREQUAL "thread")
    set(with_tests OFF)
  endif()
  set(FLAMETAP_TESTS_OF_${M_NAME} ${with_tests} PARENT_SCOPE)
  if(with_tests)
    foreach(test ${tests})
      file(RELATIVE_PATH test_name ${CMAKE_CURRENT_SOURCE_DIR} ${test})
      string(REPLACE ".c" "" test_name ${test_name})
      string(REPLACE "/" "_" test_program ${M_NAME}_${test_name})
      add_executable(${test_program} ${test})
      target_link_libraries(${test_program} PRIVATE flametap_${M_NAME} cmocka z)
      target_include_directories(${test_program} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
      add_test(NAME ${M_NAME}/${test_name} COMMAND ${test_program} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
      set_tests_properties(${M_NAME}/${test_name} PROPERTIES TIMEOUT 300 LABELS unit)
    endforeach()
  endif()
endfunction()

# Part of every full build: an include against the direction of the tree (cmake/check_includes.py) fails it.
function(flametap_check_includes)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*.[ch] ${CMAKE_SOURCE_DIR}/cmd/*.[ch])
  set(script ${CMAKE_SOURCE_DIR}/cmake/check_includes.py)
  set(stamp ${CMAKE_BINARY_DIR}/check_includes.stamp)
  add_custom_command(OUTPUT ${stamp} DEPENDS ${script} ${files}
    COMMAND ${Python3_EXECUTABLE} ${script} ${CMAKE_SOURCE_DIR} --stamp ${stamp}
    COMMENT "Checking the direction of includes")
  add_custom_target(check_includes ALL DEPENDS ${stamp})
endfunction()

# Compiles bpf/<name>.bpf.c with `clang` for the kernel and makes <folder>/<name>.skel.h of it (struct <name>_bpf, the
# object embedded). CO-RE: needs nothing of the machine that builds.
function(flametap_bpf_skeleton name clang folder)
  find_program(FLAMETAP_BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)
  set(source ${CMAKE_SOURCE_DIR}/bpf/${name}.bpf.c)
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bpf/*.[hc])
  file(MAKE_DIRECTORY ${folder})
  # linux/types.h wants asm/types.h, which lies in a folder named after the machine, and is the same on all.
  set(machine x86)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(machine arm64)
  endif()
  add_custom_command(OUTPUT ${folder}/${name}.skel.h DEPENDS ${source} ${headers}
    COMMAND ${clang} -target bpf -D__TARGET_ARCH_${machine} -O2 -g -Wall -Wextra -Werror
      -I${CMAKE_SOURCE_DIR}/bpf -isystem ${CMAKE_SYSROOT}/usr/include
      -isystem ${CMAKE_SYSROOT}/usr/include/${CMAKE_C_LIBRARY_ARCHITECTURE} -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.
      -c ${source} -o ${folder}/${name}.bpf.o
    COMMAND ${FLAMETAP_BPFTOOL} gen skeleton ${folder}/${name}.bpf.o name ${name}_bpf > ${folder}/${name}.skel.h.new
    COMMAND ${CMAKE_COMMAND} -E rename ${folder}/${name}.skel.h.new ${folder}/${name}.skel.h
    COMMENT "BPF ${name}, ${clang}" VERBATIM)
endfunction()

# flametap_bpf(name TARGET target): <name>.skel.h, which `target` can include.
function(flametap_bpf name)
  cmake_parse_arguments(B "" "TARGET" "" ${ARGN})
  find_program(FLAMETAP_BPF_CLANG NAMES clang-14 clang REQUIRED)
  set(folder ${CMAKE_BINARY_DIR}/bpf)
  flametap_bpf_skeleton(${name} ${FLAMETAP_BPF_CLANG} ${folder})
  add_custom_target(bpf_${name} DEPENDS ${folder}/${name}.skel.h)
  add_dependencies(${B_TARGET} bpf_${name})
  target_include_directories(${B_TARGET} SYSTEM PRIVATE ${folder})
endfunction()

# flametap_bpf_clang19(name MODULE module SOURCES file...): the test of SOURCES, of which the first is *_test.c, once more
# with the programs as a newer compiler makes them: what it optimises otherwise, the verifier may refuse. Without that
# compiler the test skips. (The other files of SOURCES take the place of the module's own: they embed the object.)
function(flametap_bpf_clang19 name)
  cmake_parse_arguments(B "" "MODULE" "SOURCES" ${ARGN})
  find_program(FLAMETAP_BPF_CLANG_19 NAMES clang-19)
  list(GET B_SOURCES 0 test)
  get_filename_component(test ${test} NAME_WE)
  set(target ${B_MODULE}_${test}_clang19)
  if(FLAMETAP_BPF_CLANG_19)
    set(folder ${CMAKE_BINARY_DIR}/bpf-clang19)
    flametap_bpf_skeleton(${name} ${FLAMETAP_BPF_CLANG_19} ${folder})
    flametap_bpf_skeleton(${name}_bounded ${FLAMETAP_BPF_CLANG_19} ${folder})
    add_executable(${target} ${B_SOURCES} ${folder}/${name}.skel.h ${folder}/${name}_bounded.skel.h)
    target_include_directories(${target} SYSTEM BEFORE PRIVATE ${folder})
    target_link_libraries(${target} PRIVATE flametap_${B_MODULE} cmocka)
    add_test(NAME ${B_MODULE}/${test}_clang19 COMMAND ${target} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  else()
    add_test(NAME ${B_MODULE}/${test}_clang19 COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: clang-19 is not installed")
    set_tests_properties(${B_MODULE}/${test}_clang19 PROPERTIES SKIP_REGULAR_EXPRESSION "^SKIPPED")
  endif()
  set_tests_properties(${B_MODULE}/${test}_clang19 PROPERTIES TIMEOUT 300 LABELS unit)
endfunction()
