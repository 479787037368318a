# frozen_string_literal: true

require "etc"

module Bench
  # The cores of server and client. They matter more than any code: to wake another idle core costs
  # more than the work itself, above all on a virtual machine.
  Placement = Struct.new(:name, :title, :server_core, :client_core)

  # Binds processes to cores with taskset(1). Without it (macOS) there is a single placement, and
  # the table says so.
  module Pinning
    module_function

    def available? =
      ENV
        .fetch("PATH", "")
        .split(File::PATH_SEPARATOR)
        .any? { |dir| File.executable?(File.join(dir, "taskset")) }

    # cores: [server, client] numbers; "one" puts both on the client's.
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

    # Moves a running process with all its threads.
    def move(pid, core)
      return unless core

      system("taskset", "-a", "-c", "-p", core.to_s, pid.to_s, out: File::NULL) or
        raise Failed, "taskset cannot move process #{pid} to core #{core}"
    end
  end
end
