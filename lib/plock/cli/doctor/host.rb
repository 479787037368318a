# frozen_string_literal: true

require_relative "check"

module Plock
  module CLI
    module Doctor
      # Reports where the store's file is, and which processes can reach it.
      class Place < Check
        NAME = "place"
        LOGIN = "XDG_RUNTIME_DIR"
        REMEDY = "name the same one to all: PLOCK_URL=local:/path/to/file"
        private_constant :LOGIN, :REMEDY

        def look
          name = Configuration.production_variable
          if name
            advice(
              "#{who}, and no others, though #{name} says production",
              "where there are several hosts, use a server: PLOCK_URL=redis://…"
            )
          elsif in?(ENV.fetch(LOGIN, ""), "plock")
            advice("#{who}, a place that #{LOGIN} names: without it, as under cron and in " \
                   "services, local: names another place", REMEDY)
          elsif in?(ENV.fetch("TMPDIR", ""), own) || in?("/tmp", own)
            advice("#{who}, a place in the temporary folder: with #{LOGIN} or another TMPDIR, in " \
                   "a service with PrivateTmp= and in a container, local: names another place",
                   REMEDY)
          else
            fine(who)
          end
        end

        private

        def who = "processes of this host that use #{server.store.path}"

        # Is the store's file the one that the engine uses in this folder if no path is given?
        def in?(folder, name) = server.store.path == "#{folder}/#{name}/locks"

        def own = "plock-#{Process.euid}"
      end

      # Reports the type of the file system that has the store's file. It finds no fault, because a
      # store refuses to open on a file system that it cannot use.
      class FileSystem < Check
        NAME = "file system"
        MOUNTS = "/proc/self/mounts"
        private_constant :MOUNTS

        def look = fine("#{kind || "one"} whose memory processes of this host share")

        private

        # Returns the type of the deepest mount that contains the path. If two mounts are at the
        # same place, the later one counts. nil: the system has no list of mounts, or no mount in
        # it contains the path.
        def kind
          return unless File.readable?(MOUNTS)

          path = File.realpath(File.dirname(server.store.path))
          mounts = File.readlines(MOUNTS).map { |line| line.split(" ").values_at(1, 2) }
          inside =
            mounts.select do |place, _|
              place == "/" || path == place || path.start_with?("#{place}/")
            end
          inside
            .max_by
            .with_index { |(place, _), number| [place.length, number] }
            &.then { |_, name| "#{name}," }
        end
      end
    end
  end
end
