// A program to be launched, which does what its words say, in order. A word may begin with the rank
// that it is for: `1:signal=11`. The first word starting with `tag=` does nothing: tests find our
// processes by it.
//
//   env=FOLDER      writes the environment to FOLDER/<rank>
//   cpus=FOLDER     writes the CPUs that a thread it starts may run on to FOLDER/<rank>
//   mark=FOLDER     makes the empty file FOLDER/<rank>, when the words before are done
//   await=FILE      waits until FILE exists
//   fail_unless=FILE  ends with 3, after making FILE, unless FILE exists
//   fail_once=FILE    waits until FILE exists, removes it and ends with 3; does nothing after a restart
//   agree=FILE      as a training whose ranks agree to stop: on SIGTERM or SIGUSR1 to one of them all
//                   end with 128 + that. Does nothing after a restart
//   print=TEXT      writes TEXT and a line end to standard output
//   flood=BYTES     writes that much to standard output
//   read            copies standard input to standard output
//   catch=N         on signal N: writes "caught N" to standard output and exits with 7
//   ignore=N        ignores signal N
//   child           leaves a child behind that sleeps for a minute
//   deaf_child      the same, and it ignores SIGTERM
//   close           closes all standard descriptors
//   sleep=MS        sleeps
//   exit=CODE, signal=N, stop: ends, is killed, is stopped
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

namespace {

std::string rank() {
  const char* text = std::getenv("RANK");
  return text == nullptr ? "0" : text;
}

void caught(int number) {
  const std::string text = "caught " + std::to_string(number) + "\n";
  [[maybe_unused]] const auto written = write(1, text.data(), text.size());
  _exit(7);
}

void write_environment(const std::string& folder) {
  std::ofstream file(folder + "/" + rank());
  for (char** entry = environ; *entry != nullptr; ++entry) file << *entry << '\0';
}

std::string own_thread_status(const std::string& key) {
  std::ifstream file("/proc/thread-self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(line.find_first_not_of(" \t", key.size()));
  }
  return {};
}

void write_cpus(const std::string& folder) {
  std::thread([&] {
    std::ofstream(folder + "/" + rank()) << own_thread_status("Cpus_allowed_list:");
  }).join();
}

void leave_child(bool deaf) {
  if (fork() != 0) return;
  if (deaf) signal(SIGTERM, SIG_IGN);
  std::this_thread::sleep_for(std::chrono::minutes(1));
  _exit(0);
}

void close_all() {
  for (int fd = 0; fd < 3; ++fd) close(fd);
}

void await(const std::string& file) {
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void fail_unless(const std::string& file) {
  if (std::filesystem::exists(file)) return;
  std::ofstream{file};
  _exit(3);
}

void fail_once(const std::string& file) {
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (restarts != nullptr && std::string(restarts) != "0") return;
  await(file);
  std::filesystem::remove(file);
  _exit(3);
}

std::string agreement;

void propose(int number) {
  const int file = open(agreement.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const char text = static_cast<char>(number);
  [[maybe_unused]] const auto written = write(file, &text, 1);
  close(file);
}

void agree(const std::string& file) {
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  if (restarts != nullptr && std::string(restarts) != "0") return;
  agreement = file;
  for (const int number : {SIGTERM, SIGUSR1}) signal(number, propose);
  std::thread([] {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      char number = 0;
      if (std::ifstream(agreement).get(number)) _exit(128 + number);
    }
  }).detach();
}

void act(const std::string& verb, const std::string& value) {
  if (verb == "env") write_environment(value);
  if (verb == "cpus") write_cpus(value);
  if (verb == "fail_once") fail_once(value);
  if (verb == "fail_unless") fail_unless(value);
  if (verb == "agree") agree(value);
  if (verb == "mark") std::ofstream(value + "/" + rank());
  if (verb == "await") await(value);
  if (verb == "print") std::cout << value << std::endl;
  if (verb == "flood") std::cout << std::string(std::stoul(value), 'x') << std::flush;
  if (verb == "read") std::cout << std::cin.rdbuf() << std::flush;
  if (verb == "catch") signal(std::stoi(value), caught);
  if (verb == "ignore") signal(std::stoi(value), SIG_IGN);
  if (verb == "child") leave_child(false);
  if (verb == "deaf_child") leave_child(true);
  if (verb == "close") close_all();
  if (verb == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(value)));
  if (verb == "exit") std::exit(std::stoi(value));
  if (verb == "signal") raise(std::stoi(value));
  if (verb == "stop") raise(SIGSTOP);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    const auto colon = word.find(':');
    if (colon != std::string::npos && colon < 3) {
      if (word.substr(0, colon) != rank()) continue;
      word.erase(0, colon + 1);
    }
    const auto equals = word.find('=');
    act(word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1));
  }
}
