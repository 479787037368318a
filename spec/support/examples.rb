# frozen_string_literal: true

require "rbconfig"
require "securerandom"
require "timeout"
require_relative "hostile_server"
require_relative "patience"
require_relative "processes"
require_relative "proxy"
require_relative "redis_server"
require_relative "warnings"

module Support
  # What examples have at hand. Everything made here is stopped, closed or killed after the example.
  module Examples
    include Patience

    THREAD_END = 10.0
    # Of a store whose server lives: a busy machine may keep it from answering for a while.
    PATIENT = {
      connect_timeout: 10, command_timeout: 10, attempt_timeout: 10, release_timeout: 10,
      unavailable_timeout: 10
    }.freeze
    LIB = File.expand_path("../../lib", __dir__)

    # Skips the example, saying by name which of the programs is missing here.
    def need(*programs)
      missing = programs.flatten.compact.reject do |name|
        ENV["PATH"]
          .split(File::PATH_SEPARATOR)
          .any? { |folder| File.executable?(File.join(folder, name)) }
      end
      skip "#{missing.join(", ")} not installed" if missing.any?
    end

    # Skips the example if the server is older than that version.
    def need_redis(version)
      return unless version && RedisServer.version < Gem::Version.new(version)

      skip "#{RedisServer::PROGRAM} is older than #{version}"
    end

    # A server of this example's own (kinds and options: RedisServer).
    def redis_server(kind = :plain, **options)
      need(RedisServer::PROGRAM)
      discard(RedisServer.start(kind, **options), :stop)
    end

    # The plain server that examples share, each with keys of its own.
    def shared_redis
      need(RedisServer::PROGRAM)
      RedisServer.shared
    end

    def proxy(upstream = shared_redis) = discard(Proxy.new(upstream), :close)

    def hostile_server(script) = discard(HostileServer.new(script), :close)

    # Plock::Store.open, closed after the example.
    def open_store(address = shared_redis.unix_url, **options) =
      discard(Plock::Store.open(address, **options), :close)

    # From the second call on, a plain call goes through C.
    def used(store)
      store.tap { store.status("first") }
    rescue Plock::ConfigurationError # its secret is another one
      store
    end

    # A full store key that no other example uses.
    def unique_key = Plock.store_key("plock:v1:", SecureRandom.hex(16))

    # Runs the block in a forked child, and returns its value.
    def in_child(within: Child::DEADLINE, &block) = Child.new(&block).result(within: within)

    def child(&block) = Child.new(&block)

    # A thread that ends with the example. Only #join and #value raise its exception.
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

    # Runs a fresh Ruby with plock in its load path; returns [output with errors, Process::Status].
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

    # Has `thing.message` called after the example.
    def discard(thing, message)
      discarded << [thing, message]
      thing
    end

    def discarded = @discarded ||= []

    # An exception from one of them does not keep the others from being discarded.
    def discard_all
      thing, message = discarded.pop
      thing&.public_send(message)
    ensure
      discarded.empty? ? Child.end_all : discard_all
    end
  end
end
