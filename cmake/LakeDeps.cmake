# Where the third-party libraries are. `deps/fetch` fills .deps; every part can instead come from a
# prefix of your own: -DLAKE_DUCKDB_ROOT=…, -DLAKE_NANOARROW_ROOT=…, and the usual CMAKE_PREFIX_PATH
# and PKG_CONFIG_PATH for the rest.
set(LAKE_DEPS_PREFIX ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "What deps/fetch filled")
set(LAKE_DUCKDB_ROOT ${LAKE_DEPS_PREFIX}/duckdb CACHE PATH "Holds include/ and lib/ of DuckDB 1.5.5")
set(LAKE_NANOARROW_ROOT ${LAKE_DEPS_PREFIX}/nanoarrow CACHE PATH "Sources of nanoarrow 0.9.0")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc gpr)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(ROCKSDB REQUIRED IMPORTED_TARGET rocksdb)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
find_program(PROTOC_C NAMES protoc-c REQUIRED)

if(LAKE_SANITIZE)
  add_compile_options(-fsanitize=${LAKE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LAKE_SANITIZE})
  add_compile_definitions(LAKE_SANITIZED=1)
endif()
if(LAKE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
  add_compile_definitions(LAKE_SANITIZED=1)
endif()

# nanoarrow and the part of flatcc that its IPC code needs; compiled once, as third-party code.
file(GLOB nanoarrow_sources
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/common/array.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/common/array_stream.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/common/schema.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/common/utils.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/ipc/codecs.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/ipc/decoder.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/ipc/encoder.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/ipc/reader.c
     ${LAKE_NANOARROW_ROOT}/src/nanoarrow/ipc/writer.c)
foreach(runtime builder emitter verifier refmap)
  file(GLOB_RECURSE found ${LAKE_NANOARROW_ROOT}/*flatcc/src/runtime/${runtime}.c)
  list(APPEND nanoarrow_sources ${found})
endforeach()
file(GLOB_RECURSE flatcc_header ${LAKE_NANOARROW_ROOT}/*/flatcc/flatcc_builder.h)
if(NOT nanoarrow_sources OR NOT flatcc_header)
  message(FATAL_ERROR "nanoarrow's sources are not in ${LAKE_NANOARROW_ROOT}: run deps/fetch, or "
                      "give -DLAKE_NANOARROW_ROOT=…")
endif()
list(GET flatcc_header 0 flatcc_header)
cmake_path(GET flatcc_header PARENT_PATH flatcc_include)
cmake_path(GET flatcc_include PARENT_PATH flatcc_include)
add_library(nanoarrow STATIC ${nanoarrow_sources})
target_include_directories(nanoarrow SYSTEM PUBLIC ${LAKE_NANOARROW_ROOT}/src ${flatcc_include})
target_compile_definitions(nanoarrow PUBLIC NANOARROW_IPC_WITH_ZSTD NANOARROW_IPC_WITH_LZ4)
target_compile_options(nanoarrow PRIVATE -w)
target_link_libraries(nanoarrow PUBLIC PkgConfig::ZSTD PkgConfig::LZ4)

if(NOT EXISTS ${LAKE_DUCKDB_ROOT}/lib/libduckdb.so)
  message(FATAL_ERROR "libduckdb.so is not in ${LAKE_DUCKDB_ROOT}/lib: run deps/fetch, or give "
                      "-DLAKE_DUCKDB_ROOT=…")
endif()
add_library(duckdb SHARED IMPORTED)
set_target_properties(duckdb PROPERTIES
  IMPORTED_LOCATION ${LAKE_DUCKDB_ROOT}/lib/libduckdb.so
  IMPORTED_NO_SONAME TRUE
  INTERFACE_INCLUDE_DIRECTORIES ${LAKE_DUCKDB_ROOT}/include
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${LAKE_DUCKDB_ROOT}/include)
