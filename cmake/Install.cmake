# The install target: the programs side by side in bin/ (cgconform looks for cgconform-worker in its
# own folder), the licence and the documents.
include(GNUInstallDirs)
# The component that scripts/bundle.sh asks for; no part of an ordinary installation.
if(TARGET gpu_tests)
  install(TARGETS gpu_tests RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT gpu_tests
          EXCLUDE_FROM_ALL)
endif()
foreach(program IN ITEMS cgconform cgconform-worker)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
