# frozen_string_literal: true

require "etc"

module Bench
  # Where server and client run. It decides more than any code: to wake another idle core costs more
  # than the work itself, above all on a virtual machine.
  Placement = Struct.new(:name, :title, :server_core, :client_core)

  # Binds processes to cores through taskset(1). Without it (macOS) there is a single placement,
  # named so in the table.
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

    # Moves a running process, all its threads included.
    def move(pid, core)
      return unless core

      system("taskset", "-a", "-c", "-p", core.to_s, pid.to_s, out: File::NULL) or
        raise Failed, "taskset cannot move process #{pid} to core #{core}"
    end
  end
end
