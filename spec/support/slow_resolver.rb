# frozen_string_literal: true

require "rbconfig"
require_relative "supervisor"

module Support
  # Slow host names for a Ruby that is started with SlowResolver.environment. A library that
  # replaces getaddrinfo(3) resolves slow-N.test to 127.0.0.1 after N milliseconds. Each of these
  # lookups writes one line to the log file when it starts, and one when it ends.
  module SlowResolver
    SOURCE = <<~C
      #define _GNU_SOURCE
      #include <dlfcn.h>
      #include <fcntl.h>
      #include <netdb.h>
      #include <stdlib.h>
      #include <string.h>
      #include <time.h>
      #include <unistd.h>

      static void note(const char *line) {
          const char *log = getenv("SLOW_RESOLVER_LOG");
          int fd = log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
          if (fd < 0) return;
          if (write(fd, line, strlen(line)) < 0) abort();
          close(fd);
      }

      typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

      int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                      struct addrinfo **found) {
          lookup *real = dlsym(RTLD_NEXT, "getaddrinfo");
          if (!node || strncmp(node, "slow-", 5) || (hints && hints->ai_flags & AI_NUMERICHOST))
              return real(node, service, hints, found);
          long ms = atol(node + 5);
          struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
          note("start\\n");
          nanosleep(&pause, NULL);
          note("end\\n");
          return real("127.0.0.1", service, hints, found);
      }
    C

    class << self
      # The environment for such a Ruby, or nil if the library cannot be built.
      def environment(log)
        library && { "LD_PRELOAD" => library, "SLOW_RESOLVER_LOG" => log }
      end

      private

      def library
        return @library if defined?(@library)
        # only Linux has LD_PRELOAD
        return @library = nil unless RUBY_PLATFORM.include?("linux")

        source = File.join(Supervisor.folder, "slow_resolver.c")
        target = File.join(Supervisor.folder, "slow_resolver.so")
        File.write(source, SOURCE)
        built =
          system(
            RbConfig::CONFIG["CC"].split.first, "-shared", "-fPIC", "-o", target, source, "-ldl",
            out: File::NULL, err: File::NULL
          )
        @library = built ? target : nil
      end
    end
  end
end
