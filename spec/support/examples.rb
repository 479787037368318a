# frozen_string_literal: true

require "rbconfig"
require "securerandom"
require "timeout"
require_relative "hostile_server"
require_relative "patience"
require_relative "processes"
require_relative "proxy"
require_relative "redis_server"
require_relative "replacement"
require_relative "warnings"

module Support
  # Helpers for all examples. After an example, everything that it made with them is stopped,
  # closed or killed.
  module Examples
    include Patience

    THREAD_END = 10.0
    # Options for a store whose server works, even if a busy machine delays the server's answers.
    PATIENT = {
      connect_timeout: 10, command_timeout: 10, attempt_timeout: 10, release_timeout: 10,
      unavailable_timeout: 10
    }.freeze
    LIB = File.expand_path("../../lib", __dir__)

    # Skips the example if one of these programs is missing, and names the missing ones.
    def need(*programs)
      missing = programs.flatten.compact.reject do |name|
        ENV["PATH"]
          .split(File::PATH_SEPARATOR)
          .any? { |folder| File.executable?(File.join(folder, name)) }
      end
      skip "#{missing.join(", ")} not installed" if missing.any?
    end

    # Skips the example if the server is older than this version.
    def need_redis(version)
      return unless version && RedisServer.version < Gem::Version.new(version)

      skip "#{RedisServer::PROGRAM} is older than #{version}"
    end

    # A server for this example alone. RedisServer lists the kinds and options.
    def redis_server(kind = :plain, **options)
      need(RedisServer::PROGRAM)
      discard(RedisServer.start(kind, **options), :stop)
    end

    # The plain server that all examples share. Each example uses its own keys.
    def shared_redis
      need(RedisServer::PROGRAM)
      RedisServer.shared
    end

    def proxy(upstream = shared_redis) = discard(Proxy.new(upstream), :close)

    def hostile_server(script) = discard(HostileServer.new(script), :close)

    # A store that is closed after the example.
    def open_store(address = shared_redis.unix_url, **options) =
      discard(Plock::Store.open(address, **options), :close)

    # Makes the first call on the store. From the second call on, a call without options takes the
    # short way through C.
    def used(store)
      store.tap { store.status("first") }
    rescue Plock::ConfigurationError # its secret differs from that of the other stores
      store
    end

    # A store key that no other example uses.
    def unique_key = Plock.store_key("plock:v1:", SecureRandom.hex(16))

    # Runs the block in a forked child, and returns its value.
    def in_child(within: Child::DEADLINE, &block) = Child.new(&block).result(within: within)

    def child(&block) = Child.new(&block)

    # Starts a thread, which is killed after the example. It reports its exception only through
    # #join and #value.
    def background(&block)
      thread = Thread.new do
        Thread.current.report_on_exception = false
        block.call
      end
      discard(
        -> do
          thread.kill && eventually(THREAD_END, "a thread cannot be killed") { !thread.alive? }
        end,
        :call
      )
      thread
    end

    # Runs a new Ruby with plock in its load path.
    #
    # @return [Array(String, Process::Status)] the output, which includes the errors, and the
    #   status
    def ruby(program, *arguments, env: {}, within: Child::DEADLINE)
      includes =
        [*ENV.fetch("RUBYLIB", "").split(File::PATH_SEPARATOR), LIB].flat_map do |folder|
          ["-I", folder]
        end
      output = File.join(Supervisor.folder, "out-#{SecureRandom.hex(6)}")
      pid =
        Process.spawn(
          env, RbConfig.ruby, *includes, "-e", program, *arguments, %i[out err] => output,
          :in => File::NULL
        )
      Supervisor.watch(pid)
      status = Timeout.timeout(within) { Process.wait2(pid).last }
      [File.read(output), status]
    ensure
      Process.kill(:KILL, pid) && Process.wait(pid) if pid && !status
      Supervisor.forget(pid) if pid
    end

    def warnings(&block) = Warnings.capture(&block)

    # Replaces a method until the example ends, see {Replacement}.
    def replace(...) = discard(Replacement.new(...), :undo)

    # Calls `thing.message` after the example.
    def discard(thing, message)
      discarded << [thing, message]
      thing
    end

    def discarded = @discarded ||= []

    # If discarding one thing raises, still discards the others.
    def discard_all
      thing, message = discarded.pop
      thing&.public_send(message)
    ensure
      discarded.empty? ? Child.end_all : discard_all
    end
  end
end
