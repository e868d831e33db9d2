#include "cli/terminal/screen.h"

#include <fcntl.h>
#include <unistd.h>

namespace accelerate::cli {

void secure_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1) continue;
    // The lowest free descriptor is fd, because the lower ones are open by now.
    if (open("/dev/null", O_RDWR) < 0) return;
  }
}

}  // namespace accelerate::cli
