#include "harness/crash_handler.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>

#include <fcntl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "harness/system_error.hpp"

namespace cgconform::harness {
namespace {

constexpr std::size_t alternate_stack_bytes = std::size_t{256} * 1024;
constexpr std::array fatal_signals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

// A signal handler has no other way to its data. Set once, before the handlers are installed.
std::atomic<BoardLayout*> handler_board{nullptr};

std::int32_t thread_id() {
  return static_cast<std::int32_t>(::syscall(SYS_gettid));
}

/// Address of the instruction that the signal interrupted.
std::uint64_t interrupted_at(const void* context) {
  const auto* user = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return static_cast<std::uint64_t>(user->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return user->uc_mcontext.pc;
#else
#error "say here where a signal context keeps the program counter"
#endif
}

struct StackWalk {
  StackSlot& slot;
  std::uint64_t interrupted = 0;
  bool in_handler = true;  ///< frames of the handler itself come first and are left out
};

void append_frame(StackSlot& slot, std::uint64_t address) {
  const std::uint32_t count = slot.frame_count.load(std::memory_order_relaxed);
  if (count >= StackSlot::most_frames) return;
  slot.frames.at(count).store(address, std::memory_order_relaxed);
  slot.frame_count.store(count + 1, std::memory_order_release);
}

_Unwind_Reason_Code walk_frame(_Unwind_Context* context, void* argument) {
  auto* walk = static_cast<StackWalk*>(argument);
  int before_instruction = 0;
  const std::uint64_t address = _Unwind_GetIPInfo(context, &before_instruction);
  if (address == 0) return _URC_END_OF_STACK;
  if (walk->in_handler) {
    walk->in_handler = address != walk->interrupted;
    return _URC_NO_REASON;
  }
  // A return address points behind its call.
  append_frame(walk->slot, before_instruction == 0 ? address - 1 : address);
  return _URC_NO_REASON;
}

void record_stack(StackSlot& slot, const void* context) {
  slot.thread.store(thread_id(), std::memory_order_relaxed);
  StackWalk walk{slot, interrupted_at(context)};
  append_frame(slot, walk.interrupted);
  _Unwind_Backtrace(walk_frame, &walk);
  slot.complete.store(1, std::memory_order_release);
}

/// Appends the line to the board's map where it names a file and fits.
void keep_map_line(BoardLayout& board, std::string_view line) {
  if (line.find('/') == std::string_view::npos) return;
  const std::uint32_t length = board.map_length.load(std::memory_order_relaxed);
  if (length + line.size() > BoardLayout::map_bytes) return;
  std::memcpy(board.map.data() + length, line.data(), line.size());
  board.map_length.store(length + static_cast<std::uint32_t>(line.size()),
                         std::memory_order_release);
}

void record_map(BoardLayout& board) {
  if (board.map_claimed.exchange(1, std::memory_order_acq_rel) != 0) return;
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::array<char, 4096> chunk{};
  std::size_t used = 0;
  while (true) {
    const ssize_t count = ::read(file, chunk.data() + used, chunk.size() - used);
    if (count <= 0) break;
    used += static_cast<std::size_t>(count);
    std::string_view rest(chunk.data(), used);
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      keep_map_line(board, rest.substr(0, end + 1));
      rest.remove_prefix(end + 1);
    }
    if (rest.size() == chunk.size()) rest = {};
    std::memmove(chunk.data(), rest.data(), rest.size());
    used = rest.size();
  }
  ::close(file);
}

/// Gives the thread that crashed first the time to write its stack.
void wait_for_first_crash(const BoardLayout& board) {
  constexpr int attempts = 200;
  const timespec pause{0, 1'000'000};
  for (int i = 0; i < attempts && board.crash.stack.complete.load() == 0; ++i) {
    ::nanosleep(&pause, nullptr);
  }
}

void handle_fatal(int signal, siginfo_t* info, void* context) {
  BoardLayout* board = handler_board.load(std::memory_order_acquire);
  if (board != nullptr && board->crash.claimed.exchange(1, std::memory_order_acq_rel) == 0) {
    board->crash.code.store(info->si_code, std::memory_order_relaxed);
    board->crash.fault_address.store(reinterpret_cast<std::uintptr_t>(info->si_addr),
                                     std::memory_order_relaxed);
    board->crash.signal.store(signal, std::memory_order_release);
    record_map(*board);
    record_stack(board->crash.stack, context);
  } else if (board != nullptr) {
    wait_for_first_crash(*board);
  }
  // The handler was reset on entry: the same signal now ends the process, with its own status.
  ::syscall(SYS_tgkill, ::getpid(), thread_id(), signal);
}

void handle_stack_request(int /*signal*/, siginfo_t* /*info*/, void* context) {
  const int saved_errno = errno;
  BoardLayout* board = handler_board.load(std::memory_order_acquire);
  if (board != nullptr) {
    record_map(*board);
    const std::uint32_t slot = board->stacks_claimed.fetch_add(1, std::memory_order_acq_rel);
    if (slot < BoardLayout::most_threads) record_stack(board->stacks.at(slot), context);
  }
  errno = saved_errno;
}

void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | flags;
  sigemptyset(&action.sa_mask);
  if (::sigaction(signal, &action, nullptr) != 0) throw_system_error("installing a signal handler");
}

_Unwind_Reason_Code ignore_frame(_Unwind_Context* /*context*/, void* /*argument*/) {
  return _URC_NO_REASON;
}

}  // namespace

int stack_dump_signal() {
  return SIGUSR2;
}

CrashHandler::CrashHandler(BoardLayout& board)
    : alternate_stack_(std::make_unique<std::byte[]>(alternate_stack_bytes)) {
  handler_board.store(&board, std::memory_order_release);
  // The first walk loads and initialises the unwinder.
  _Unwind_Backtrace(ignore_frame, nullptr);
  stack_t stack{};
  stack.ss_sp = alternate_stack_.get();
  stack.ss_size = alternate_stack_bytes;
  if (::sigaltstack(&stack, nullptr) != 0) throw_system_error("installing an alternate stack");
  for (const int signal : fatal_signals)
    install(signal, handle_fatal, static_cast<int>(SA_RESETHAND));
  install(stack_dump_signal(), handle_stack_request, SA_RESTART);
}

CrashHandler::~CrashHandler() {
  for (const int signal : fatal_signals) ::signal(signal, SIG_DFL);
  ::signal(stack_dump_signal(), SIG_IGN);
  stack_t stack{};
  stack.ss_flags = SS_DISABLE;
  ::sigaltstack(&stack, nullptr);
  handler_board.store(nullptr, std::memory_order_release);
}

}  // namespace cgconform::harness
