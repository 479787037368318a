# frozen_string_literal: true

require "etc"

module Bench
  # The cores of the server and the client. The choice of cores matters more than any code, because
  # waking an idle core costs more than the work itself. This is most noticeable on a virtual
  # machine.
  Placement = Struct.new(:name, :title, :server_core, :client_core)

  # Binds processes to cores with taskset(1). Without taskset, as on macOS, there is only one
  # placement, and the table says so.
  module Pinning
    module_function

    def available? =
      ENV
        .fetch("PATH", "")
        .split(File::PATH_SEPARATOR)
        .any? { |dir| File.executable?(File.join(dir, "taskset")) }

    # cores: the numbers of the server's core and the client's core. "one" puts both on the
    # client's core.
    def placements(names, cores)
      return [Placement.new("free", "not pinned (no taskset here)", nil, nil)] unless available?

      server, client = cores
      all = {
        "one" => Placement.new("one", "client and server on one core (#{client})", client, client)
      }
      if Etc.nprocessors > 1
        all["two"] = Placement.new(
          "two", "each on its own (server #{server}, client #{client})", server, client
        )
      end
      names.filter_map { |name| all[name] }
    end

    def command(core, *words) = core ? ["taskset", "-c", core.to_s, *words] : words

    # Moves a running process, with all its threads, to this core.
    def move(pid, core)
      return unless core

      system("taskset", "-a", "-c", "-p", core.to_s, pid.to_s, out: File::NULL) or
        raise Failed, "taskset cannot move process #{pid} to core #{core}"
    end
  end
end
