# frozen_string_literal: true

require "socket"
require "tmpdir"

module Support
  # The process beside the suite. Proxies and scripted servers live in it, so that they keep working
  # while the suite holds its GVL, stands still in C, or forks; and when the suite dies, however it
  # dies, the processes and folders it left are cleared away from there.
  #
  # A command is one short connection on a Unix socket, answered when it has taken effect: safe from
  # any thread and from any child of the suite, and it leaves no descriptor behind.
  module Supervisor
    # A command failed over there; the message carries the error as it was raised.
    class Failed < StandardError; end

    # Seconds. It only ends what hangs: examples that walk through each step of an operation take
    # minutes on a busy machine. Under valgrind it is longer.
    EXAMPLE_DEADLINE = Float(ENV.fetch("PLOCK_EXAMPLE_DEADLINE", 300))

    START_DEADLINE = 30.0 # generous: under valgrind Ruby takes seconds to start

    @mutex = Mutex.new

    class << self
      # The suite's temporary folder, removed at the end. Short, because sockets live in it.
      def folder
        start
        @folder
      end

      # Has `pid` killed when the suite ends without having said forget(pid).
      def watch(pid) = call(nil, :watch, pid)

      def forget(pid) = call(nil, :forget, pid)

      # Has another folder removed at the end.
      def own(folder) = call(nil, :own, folder)

      # Ends the suite, naming the example, if end_example is not called within the given seconds.
      def begin_example(name, seconds) = call(nil, :begin_example, name, seconds)

      def end_example = call(nil, :end_example)

      # Makes an object of a class that lives in the supervisor; returns its id for call.
      def host(kind, **options) = call(nil, :host, kind, **options)

      def drop(id) = call(nil, :drop, id)

      # Calls a method of the hosted object `id` (nil: of the supervisor process itself).
      def call(id, method, *arguments, **options)
        start
        verdict, value = UNIXSocket.open(File.join(@folder, "supervisor")) do |socket|
          Marshal.dump([id, method, arguments, options], socket)
          Marshal.load(socket)
        end
        verdict == :ok ? value : raise(Failed, value)
      end

      # Runs the block before the end, if the suite ends in order.
      def before_end(&block) = (@partings ||= []) << block

      # Ends the process and with it everything it hosts and watches. Only the suite itself may.
      def stop
        return unless @pid && @owner == Process.pid

        @partings&.each(&:call)
        call(nil, :clear)
        Process.wait(@pid)
        @pid = nil
      end

      private

      def start
        return if @pid

        @mutex.synchronize { launch unless @pid }
      end

      def launch
        @owner = Process.pid
        @folder = Dir.mktmpdir("plock-")
        said, says = IO.pipe
        # A group of its own: Ctrl-C must reach the suite, not what the suite still has to stop.
        pid = Process.spawn({ "RUBYOPT" => nil, "RUBYLIB" => nil }, RbConfig.ruby, "--disable-gems",
                            File.join(__dir__, "supervisor_process.rb"), @folder, @owner.to_s,
                            out: says, in: File::NULL, pgroup: true)
        says.close
        unless said.wait_readable(START_DEADLINE) && said.gets
          raise Failed, "the supervisor process did not start"
        end

        @pid = pid
      ensure
        said&.close
      end
    end
  end
end
