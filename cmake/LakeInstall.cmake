# liblake as others link it, and `make install`.
#
# Inside the tree the SDK is the static library of its folder plus those it uses. Installed it is
# one shared and one static library that show the functions of include/lake/ and nothing else.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(NOT TARGET lake_client)
  return()
endif()

# Everything of ours that the SDK is made of: the closure of the static libraries it links.
function(lake_static_closure target out)
  set(todo ${target})
  set(found)
  while(todo)
    list(POP_FRONT todo next)
    if(NOT TARGET ${next} OR next IN_LIST found)
      continue()
    endif()
    get_target_property(kind ${next} TYPE)
    get_target_property(imported ${next} IMPORTED)
    if(imported OR NOT kind STREQUAL STATIC_LIBRARY)
      continue()
    endif()
    list(APPEND found ${next})
    get_target_property(links ${next} LINK_LIBRARIES)
    if(links)
      list(APPEND todo ${links})
    endif()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()
lake_static_closure(lake_client lake_parts)

# The exported names are the functions that the public headers declare.
file(GLOB lake_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/lake/*.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${lake_headers})
set(lake_names)
foreach(header ${lake_headers})
  file(READ ${header} text)
  string(REGEX MATCHALL "lake_[a-z0-9_]+\\(" calls "${text}")
  list(APPEND lake_names ${calls})
endforeach()
list(TRANSFORM lake_names REPLACE "\\(" "")
list(REMOVE_DUPLICATES lake_names)
list(SORT lake_names)
list(JOIN lake_names ";\n    " exported)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/liblake.map CONTENT
  "LAKE_${PROJECT_VERSION_MAJOR} {\n  global:\n    @exported@;\n  local:\n    *;\n};\n" @ONLY)
list(JOIN lake_names "\n" exported)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/liblake.names CONTENT "@exported@\n" @ONLY)

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/liblake.c CONTENT
  "/* liblake is linked from the libraries of its folders. */\nextern int lake_unused;\n" @ONLY)
add_library(liblake SHARED ${CMAKE_BINARY_DIR}/liblake.c)
set_target_properties(liblake PROPERTIES OUTPUT_NAME lake VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}
                      LINK_DEPENDS ${CMAKE_BINARY_DIR}/liblake.map)
foreach(part ${lake_parts})
  target_link_options(liblake PRIVATE
    "LINKER:--whole-archive" "$<TARGET_FILE:${part}>" "LINKER:--no-whole-archive")
endforeach()
add_dependencies(liblake ${lake_parts})
target_link_options(liblake PRIVATE
  "LINKER:--version-script=${CMAKE_BINARY_DIR}/liblake.map" "LINKER:--as-needed")
if(NOT LAKE_SANITIZE AND NOT LAKE_FUZZ)
  target_link_options(liblake PRIVATE "LINKER:-z,defs")
endif()
target_link_libraries(liblake PRIVATE lake_client)

# One object with every part in it, in which only the exported names are visible.
set(lake_archives)
foreach(part ${lake_parts})
  list(APPEND lake_archives $<TARGET_FILE:${part}>)
endforeach()
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/liblake.a
  COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o liblake.o
          -Wl,--whole-archive ${lake_archives} -Wl,--no-whole-archive
  COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${CMAKE_BINARY_DIR}/liblake.names liblake.o
  COMMAND ${CMAKE_COMMAND} -E rm -f liblake.a
  COMMAND ${CMAKE_AR} rcs liblake.a liblake.o
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  DEPENDS ${lake_parts} ${CMAKE_BINARY_DIR}/liblake.names
  COMMAND_EXPAND_LISTS VERBATIM)
if(NOT LAKE_SANITIZE AND NOT LAKE_FUZZ)
  add_custom_target(liblake_static ALL DEPENDS ${CMAKE_BINARY_DIR}/liblake.a)
  install(FILES ${CMAKE_BINARY_DIR}/liblake.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

install(TARGETS liblake LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${lake_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lake)

# The path from lake.pc back to the prefix, so that an installed tree can be moved.
string(REGEX REPLACE "[^/]+" ".." LAKE_PC_UP "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
configure_file(${CMAKE_SOURCE_DIR}/cmake/lake.pc.in ${CMAKE_BINARY_DIR}/lake.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lake.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(
  ${CMAKE_SOURCE_DIR}/cmake/LakeConfig.cmake.in ${CMAKE_BINARY_DIR}/LakeConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Lake
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LakeConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/LakeConfig.cmake ${CMAKE_BINARY_DIR}/LakeConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Lake)

# The program brings the engine's library with it, in a folder of its own.
if(TARGET lake)
  set_target_properties(lake PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/lake")
  install(TARGETS lake RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${LAKE_DUCKDB_ROOT}/lib/libduckdb.so
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/lake
          PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                      WORLD_READ WORLD_EXECUTE)
endif()

# Manual and completion are written from what the program says about itself.
if(TARGET lake AND NOT LAKE_SANITIZE AND NOT LAKE_FUZZ AND NOT CMAKE_CROSSCOMPILING)
  set(manual ${CMAKE_BINARY_DIR}/manual)
  add_custom_command(
    OUTPUT ${manual}/lake.1 ${manual}/lake ${manual}/_lake ${manual}/lake.fish
    COMMAND ${CMAKE_SOURCE_DIR}/tools/manual $<TARGET_FILE:lake> ${manual}
    DEPENDS lake ${CMAKE_SOURCE_DIR}/tools/manual VERBATIM)
  add_custom_target(lake_manual ALL DEPENDS ${manual}/lake.1)
  install(FILES ${manual}/lake.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${manual}/lake
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${manual}/_lake DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${manual}/lake.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${LAKE_DUCKDB_ROOT}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}
        RENAME LICENSE.duckdb OPTIONAL)
install(FILES ${LAKE_NANOARROW_ROOT}/flatcc/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}
        RENAME LICENSE.flatcc OPTIONAL)
