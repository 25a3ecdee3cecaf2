#include "harness/stack_symbols.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>

namespace cgconform::harness {
namespace {

struct Free {
  void operator()(char* text) const { std::free(text); }  // NOLINT: the demangler uses malloc
};
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct EndSession {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, Free> text(abi::__cxa_demangle(name, nullptr, nullptr, &status));
  return status == 0 ? std::string(text.get()) : std::string(name);
}

}  // namespace

struct StackSymbols::Session {
  /// No separate debug files: they may be anywhere, even on the network.
  Dwfl_Callbacks callbacks{};
  std::unique_ptr<Dwfl, EndSession> dwfl;
};

StackSymbols::StackSymbols(const std::string& map) : session_(std::make_unique<Session>()) {
  if (map.empty()) return;
  session_->callbacks.find_elf = dwfl_linux_proc_find_elf;
  session_->callbacks.find_debuginfo = [](Dwfl_Module*, void**, const char*, Dwarf_Addr,
                                          const char*, const char*, GElf_Word,
                                          char**) { return -1; };
  session_->dwfl.reset(dwfl_begin(&session_->callbacks));
  if (!session_->dwfl) return;
  std::string text = map;
  const std::unique_ptr<std::FILE, CloseFile> file(::fmemopen(text.data(), text.size(), "r"));
  if (!file || dwfl_linux_proc_maps_report(session_->dwfl.get(), file.get()) != 0 ||
      dwfl_report_end(session_->dwfl.get(), nullptr, nullptr) != 0) {
    session_->dwfl.reset();
  }
}

StackSymbols::~StackSymbols() = default;

std::string StackSymbols::describe(std::uint64_t address) const {
  Dwfl_Module* module = session_->dwfl ? dwfl_addrmodule(session_->dwfl.get(), address) : nullptr;
  if (module == nullptr) return fmt::format("{:#x}", address);
  Dwarf_Addr begin = 0;
  const char* path =
      dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
  const std::string file = path == nullptr ? "?" : std::filesystem::path(path).filename().string();
  const char* name = dwfl_module_addrname(module, address);
  if (name == nullptr) return fmt::format("{:#x} in {}", address - begin, file);
  std::string text = demangled(name);
  if (Dwfl_Line* line = dwfl_module_getsrc(module, address)) {
    int number = 0;
    const char* source = dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
    if (source != nullptr) {
      text += fmt::format(" ({}:{})", std::filesystem::path(source).filename().string(), number);
    }
  }
  return fmt::format("{} in {}", text, file);
}

}  // namespace cgconform::harness
