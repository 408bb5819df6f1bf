# One folder of src/ is one static library with one public header, <folder>/<folder>.h. Others see
# only that header, and only of the folders they link: the include path of a folder is a directory
# with that one file in it.

set(LAKE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Wpointer-arith -Wwrite-strings -Wvla -Wformat=2 -Werror)

# lake_library(<folder> [USES <folder>…] [LINKS <target>…] [PROTO <file in proto/>…] [FILES …])
function(lake_library folder)
  cmake_parse_arguments(ARG "" "" "USES;LINKS;PROTO" ${ARGN})
  set(dir ${CMAKE_SOURCE_DIR}/src/${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.c ${dir}/*.cc)
  set(public ${CMAKE_BINARY_DIR}/public/${folder})
  file(MAKE_DIRECTORY ${public}/${folder})
  file(CREATE_LINK ${dir}/${folder}.h ${public}/${folder}/${folder}.h SYMBOLIC)

  set(proto_dir ${CMAKE_BINARY_DIR}/proto/${folder})
  file(MAKE_DIRECTORY ${proto_dir})
  set(generated)
  foreach(proto ${ARG_PROTO})
    cmake_path(GET proto STEM stem)
    add_custom_command(
      OUTPUT ${proto_dir}/${stem}.pb-c.c ${proto_dir}/${stem}.pb-c.h
      COMMAND ${PROTOC_C} --c_out=${proto_dir} --proto_path=${CMAKE_SOURCE_DIR}/proto ${proto}
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${proto} VERBATIM)
    list(APPEND generated ${proto_dir}/${stem}.pb-c.c ${proto_dir}/${stem}.pb-c.h)
  endforeach()
  set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS -w)

  add_library(lake_${folder} STATIC ${sources} ${generated})
  target_include_directories(lake_${folder}
    PUBLIC ${public} ${CMAKE_SOURCE_DIR}/include PRIVATE ${dir})
  target_include_directories(lake_${folder} SYSTEM PRIVATE ${proto_dir})
  target_compile_options(lake_${folder} PRIVATE
    $<$<COMPILE_LANGUAGE:C>:${LAKE_WARNINGS}> $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror>)
  target_compile_definitions(lake_${folder} PRIVATE LAKE_VERSION="${PROJECT_VERSION}")
  set(uses ${ARG_USES})
  list(TRANSFORM uses PREPEND lake_)
  target_link_libraries(lake_${folder} PUBLIC ${uses} ${ARG_LINKS} Threads::Threads)
  if(ARG_PROTO)
    target_link_libraries(lake_${folder} PUBLIC PkgConfig::PROTOBUF_C)
  endif()
  set_property(GLOBAL APPEND PROPERTY LAKE_FOLDERS ${folder})
endfunction()

# tests/unit/<folder>/<stem>_test.c becomes test_<folder>_<stem>; its first line may name more
# libraries: `/* libs: meta query */`, and ctest labels: `/* labels: concurrent */` on the second.
function(lake_unit_tests)
  get_property(folders GLOBAL PROPERTY LAKE_FOLDERS)
  if(NOT CMOCKA_FOUND)
    message(STATUS "cmocka not found: unit tests are not built (make doctor says how to get it)")
    return()
  endif()
  foreach(folder ${folders})
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*_test.c)
    foreach(test ${tests})
      cmake_path(GET test STEM stem)
      string(REGEX REPLACE "_test$" "" stem ${stem})
      set(name test_${folder}_${stem})
      add_executable(${name} ${test})
      lake_read_tags(${test} libs labels)
      set(folder_libs)
      foreach(lib ${libs})
        list(APPEND folder_libs lake_${lib})
      endforeach()
      # A folder's own tests may look at its internal headers; nobody else's can.
      target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src/${folder}
                                                 ${CMAKE_SOURCE_DIR}/tests/support)
      target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/proto/${folder})
      target_link_libraries(${name} PRIVATE lake_${folder} ${folder_libs} PkgConfig::CMOCKA m)
      target_compile_options(${name} PRIVATE -Wall -Wextra -Werror)
      target_compile_definitions(${name} PRIVATE LAKE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
        LAKE_PYTHON="${LAKE_DEPS_PREFIX}/venv/bin/python" LAKE_VERSION="${PROJECT_VERSION}")
      add_test(NAME unit.${folder}.${stem} COMMAND ${name})
      set_tests_properties(unit.${folder}.${stem} PROPERTIES TIMEOUT 300 LABELS "unit;${labels}")
    endforeach()
  endforeach()
endfunction()

# tests/fuzz/<stem>_fuzz.c: a libFuzzer binary with -DLAKE_FUZZ=ON, else a replayer of its corpus.
function(lake_fuzz_targets)
  file(GLOB targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.c)
  foreach(target ${targets})
    cmake_path(GET target STEM stem)
    lake_read_tags(${target} libs labels)
    set(ready TRUE)
    set(folder_libs)
    foreach(lib ${libs})
      list(APPEND folder_libs lake_${lib})
      if(NOT TARGET lake_${lib})
        set(ready FALSE)
      endif()
    endforeach()
    if(NOT ready)
      continue()
    endif()
    add_executable(${stem} ${target})
    foreach(lib ${libs})
      target_include_directories(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/src/${lib})
      target_include_directories(${stem} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/proto/${lib})
    endforeach()
    target_link_libraries(${stem} PRIVATE ${folder_libs})
    if(LAKE_FUZZ)
      target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
    else()
      target_sources(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.c)
      string(REGEX REPLACE "_fuzz$" "" corpus ${stem})
      add_test(NAME fuzz_replay.${corpus}
               COMMAND ${stem} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${corpus})
      set_tests_properties(fuzz_replay.${corpus} PROPERTIES TIMEOUT 120 LABELS "unit;fuzz")
    endif()
  endforeach()
endfunction()

function(lake_read_tags file libs_out labels_out)
  file(STRINGS ${file} head LIMIT_COUNT 3)
  set(libs)
  set(labels)
  foreach(line ${head})
    if(line MATCHES "^/\\* libs: (.*) \\*/")
      string(REPLACE " " ";" libs "${CMAKE_MATCH_1}")
    elseif(line MATCHES "^/\\* labels: (.*) \\*/")
      string(REPLACE " " ";" labels "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(${libs_out} ${libs} PARENT_SCOPE)
  set(${labels_out} ${labels} PARENT_SCOPE)
endfunction()

# proto/lake.proto, the messages that meta, query and client share: `#include <lake.pb-c.h>`.
set(protocol_dir ${CMAKE_BINARY_DIR}/proto/protocol)
file(MAKE_DIRECTORY ${protocol_dir})
add_custom_command(
  OUTPUT ${protocol_dir}/lake.pb-c.c ${protocol_dir}/lake.pb-c.h
  COMMAND ${PROTOC_C} --c_out=${protocol_dir} --proto_path=${CMAKE_SOURCE_DIR}/proto lake.proto
  DEPENDS ${CMAKE_SOURCE_DIR}/proto/lake.proto VERBATIM)
add_library(lake_protocol STATIC ${protocol_dir}/lake.pb-c.c ${protocol_dir}/lake.pb-c.h)
target_compile_options(lake_protocol PRIVATE -w)
target_include_directories(lake_protocol SYSTEM PUBLIC ${protocol_dir})
target_link_libraries(lake_protocol PUBLIC PkgConfig::PROTOBUF_C)
