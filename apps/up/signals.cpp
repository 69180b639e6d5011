// signalfd and eventfd under one poll.
#include "apps/up/signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace troupe::apps {

result<std::unique_ptr<signal_queue>> signal_queue::open() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, s);
  struct sigaction hangup {};  // `nohup` asks to ignore it, and a blocked signal is not ignored
  if (sigaction(SIGHUP, nullptr, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return of(set);
}

result<std::unique_ptr<signal_queue>> signal_queue::of_interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return of(set);
}

result<std::unique_ptr<signal_queue>> signal_queue::of(const sigset_t& set) {
  sigset_t before;
  if (pthread_sigmask(SIG_BLOCK, &set, &before) != 0) return error::system("block signals", errno);
  io::unique_fd signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  io::unique_fd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals || !bell) return error::system("open a signal descriptor", errno);
  return std::unique_ptr<signal_queue>(
      new signal_queue(std::move(signals), std::move(bell), before));
}

std::optional<int> signal_queue::wait(int timeout_ms, int also) {
  pollfd fds[3] = {{signals_.get(), POLLIN, 0}, {bell_.get(), POLLIN, 0}, {also, POLLIN, 0}};
  if (poll(fds, 3, timeout_ms) <= 0) return std::nullopt;
  if (fds[0].revents & POLLIN) {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info)))
      return static_cast<int>(info.ssi_signo);
  }
  uint64_t rings = 0;
  if (read(bell_.get(), &rings, sizeof(rings)) == static_cast<ssize_t>(sizeof(rings))) return 0;
  return std::nullopt;
}

void signal_queue::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] auto n = write(bell_.get(), &one, sizeof(one));
}

void signal_queue::give_back() noexcept {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace troupe::apps
