# frozen_string_literal: true

require "socket"
require "tmpdir"

module Support
  # A process beside the suite, in which proxies and scripted servers run. They keep working while
  # the suite holds its GVL, blocks in C code, or forks. However the suite ends, the supervisor then
  # kills the processes and removes the folders that the suite has left behind.
  #
  # Each command uses a short connection of its own on a Unix socket, and is answered after it has
  # taken effect. So any thread and any child of the suite may send commands, and no descriptor
  # stays open.
  module Supervisor
    # A command failed in the supervisor. The message contains the original error.
    class Failed < StandardError; end

    # Seconds after which an example counts as hung. On a busy machine, examples that interrupt
    # each step of an operation take minutes. The task for valgrind sets a longer deadline.
    EXAMPLE_DEADLINE = Float(ENV.fetch("PLOCK_EXAMPLE_DEADLINE", 300))

    START_DEADLINE = 30.0 # long, because under valgrind Ruby takes seconds to start

    @mutex = Mutex.new

    class << self
      # The suite's temporary folder, which is removed at the end. Its path is short, because it
      # contains sockets.
      def folder
        start
        @folder
      end

      # The supervisor will kill the process when the suite ends, unless forget(pid) comes first.
      def watch(pid) = call(nil, :watch, pid)

      def forget(pid) = call(nil, :forget, pid)

      # The supervisor will remove this folder, too, at the end.
      def own(folder) = call(nil, :own, folder)

      # If end_example is not called within this many seconds, the supervisor ends the suite, and
      # names the example.
      def begin_example(name, seconds) = call(nil, :begin_example, name, seconds)

      def end_example = call(nil, :end_example)

      # Makes an object in the supervisor. Returns its id, for #call.
      def host(kind, **options) = call(nil, :host, kind, **options)

      def drop(id) = call(nil, :drop, id)

      # Calls a method of the object with this id. If id is nil, calls the supervisor process
      # itself.
      def call(id, method, *arguments, **options)
        start
        verdict, value = UNIXSocket.open(File.join(@folder, "supervisor")) do |socket|
          Marshal.dump([id, method, arguments, options], socket)
          Marshal.load(socket)
        end
        verdict == :ok ? value : raise(Failed, value)
      end

      # Runs the block before the suite ends, unless the suite is killed.
      def before_end(&block) = (@partings ||= []) << block

      # Ends the supervisor and everything that it hosts and watches. Does nothing in a child of the
      # suite.
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
        # The supervisor has its own process group, so that Ctrl-C reaches the suite, but not the
        # supervisor, which the suite still needs.
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
