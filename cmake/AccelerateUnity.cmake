# accelerate_compile_together(TARGET FILES [FOLDERS...]): sources of one folder become one source, at most FILES at a time.
# Most of what a source takes to compile are LibTorch's headers and their templates, which a group takes once. So names in
# the unnamed namespaces of a folder differ. Grouped by folder, a new source changes no other folder's groups. Sources with
# flags of their own stay alone.
#
# Each of FOLDERS is a regular expression. All sources in the folders that it matches become one source, for where folders are
# small and their headers large. So names in the unnamed namespaces of these folders differ too.
#
# The sanitizer presets compile every source by itself, which finds an #include that is missing.
option(ACCELERATE_UNITY_BUILD "Compile the sources of a folder together" ON)

function(accelerate_compile_together target files)
  if(NOT ACCELERATE_UNITY_BUILD)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^/.*\\.cpp$")
  list(SORT sources)
  set(folder "")
  foreach(source ${sources})
    get_filename_component(parent "${source}" DIRECTORY)
    if(NOT parent STREQUAL folder)
      set(folder "${parent}")
      set(count 0)
    endif()
    math(EXPR number "${count} / ${files}")
    math(EXPR count "${count} + 1")
    file(RELATIVE_PATH name "${CMAKE_CURRENT_SOURCE_DIR}" "${folder}")
    string(MAKE_C_IDENTIFIER "${name}_${number}" group)
    foreach(folders ${ARGN})
      if(name MATCHES "^${folders}$")
        string(MAKE_C_IDENTIFIER "${folders}" group)
      endif()
    endforeach()
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
