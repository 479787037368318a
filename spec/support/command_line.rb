# frozen_string_literal: true

require "io/console"
require "pty"
require "shellwords"
require_relative "examples"

module Support
  # `plock` as typed in a shell: a process of its own, with pipes or at a terminal.
  #
  #   out, err, status = plock("status", key)
  #   job = start_plock("run", key, "--", "sh", "-c", "echo $$ >&3; exec sleep 60")
  #   job.line                             # a line that the command wrote to descriptor 3, job.told
  #   job.signal(:TERM); job.finish.exitstatus
  module CommandLine
    ROOT = File.expand_path("../..", __dir__)
    DEADLINE = 20.0

    # The command's program and arguments: this Ruby, this checkout.
    PROGRAM = [
      RbConfig.ruby,
      *[*ENV.fetch("RUBYLIB", "").split(File::PATH_SEPARATOR), "#{ROOT}/lib"].flat_map do |folder|
        ["-I", folder]
      end,
      "#{ROOT}/exe/plock"
    ].freeze

    # Nothing of this process's bundle.
    ENVIRONMENT = {
      "BUNDLER_SETUP" => nil, "RUBYOPT" => nil, "RUBYLIB" => nil, "NO_COLOR" => nil,
      "PLOCK_SECRET" => nil
    }.freeze

    # A running one.
    class Running
      include Patience

      attr_reader :pid, :out, :err, :told

      # input: its standard input is a pipe, which #tell writes to.
      def initialize(command, env, options, input: false)
        @out, out = IO.pipe
        @err, err = IO.pipe
        @told, tell = IO.pipe
        from, @input = IO.pipe if input
        @pid =
          Process.spawn(
            env, *command,
            { :in => from || File::NULL, :out => out, :err => err, 3 => tell }.merge(options)
          )
        [out, err, tell, from].compact.each(&:close)
        Supervisor.watch(@pid)
      end

      def tell(line = "")
        @input.puts(line)
      rescue Errno::EPIPE
        raise "it ended early: #{said.join("\n")}"
      end

      def end_input = @input.close

      # The next line that the command writes to descriptor 3; nil at its end.
      def line(from = told)
        raise Child::Silent, "nothing heard" unless from.wait_readable(DEADLINE)

        from.gets&.chomp
      end

      def signal(name) = Process.kill(name, pid)

      # Its end; then out and err can be read to theirs, if no other process has them open.
      def finish(within: DEADLINE)
        eventually(within, "it does not end") do
          @status ||= Process.wait2(pid, Process::WNOHANG)&.last
        end
        Supervisor.forget(pid)
        @status
      end

      # Both streams to their end, which no process may hold up.
      def said(within: DEADLINE)
        [out, err].map { |stream| Timeout.timeout(within) { stream.read } }
      end

      def close
        Process.kill(:KILL, pid) unless @status
        finish
        [out, err, told, @input].compact.each { |stream| stream.close unless stream.closed? }
      end
    end

    # At a terminal.
    class Screen
      include Patience

      attr_reader :pid, :shown

      def initialize(command, env)
        @shown = +""
        # setsid and the controlling terminal are PTY's work; TERM and the like are not needed.
        @reader, @writer, @pid = PTY.spawn(env, *command)
        Supervisor.watch(@pid)
      end

      def type(text) = @writer.write(text)

      def hang_up = [@reader, @writer].each(&:close)

      def resize(lines, columns) = @reader.winsize = [lines, columns]

      # Waits for this text after the last match, and returns the text up to there.
      def await(pattern)
        @seen ||= 0
        eventually(DEADLINE, "#{pattern.inspect} was not shown, but #{@shown[@seen..].inspect}") do
          pull
          @shown.index(pattern, @seen)
        end
        shown = @shown[@seen...Regexp.last_match.end(0)] if pattern.is_a?(Regexp) &&
                                                            @shown.match(pattern, @seen)
        shown ||= @shown[@seen...(@shown.index(pattern, @seen) + pattern.length)]
        @seen += shown.length
        shown
      end

      def finish
        eventually(DEADLINE, "it does not end, but shows #{@shown.inspect}") do
          pull
          @status ||= Process.wait2(pid, Process::WNOHANG)&.last
        end
        pull
        Supervisor.forget(pid)
        @status
      end

      def close
        Process.kill(:KILL, pid) unless @status
        finish
        hang_up unless @reader.closed?
      end

      private

      def pull
        return if @reader.closed?

        @shown << @reader.read_nonblock(4096).scrub.delete("\r") while true
      rescue IO::WaitReadable, Errno::EIO, EOFError
        nil
      end
    end

    def plock_environment(env) = ENVIRONMENT.merge("PLOCK_URL" => shared_redis.unix_url).merge(env)

    def start_plock(*arguments, env: {}, input: false, **options)
      discard(
        Running.new([*PROGRAM, *arguments], plock_environment(env), options, input: input), :close
      )
    end

    # Runs it to its end; its output, its errors, its Process::Status.
    def plock(*arguments, env: {}, **options)
      running = start_plock(*arguments, env: env, **options)
      texts = running.said
      [*texts, running.finish]
    end

    # At a terminal: plock, or another command that finds plock as $PLOCK.
    def type_plock(*arguments, env: {}) = screen(*PROGRAM, *arguments, env: env)

    def screen(*command, env: {})
      environment =
        plock_environment(env).merge(
          "PLOCK" => PROGRAM.map { |word| Shellwords.escape(word) }.join(" ")
        )
      discard(Screen.new(command, environment), :close)
    end

    # A name that no other example uses, and its lock on the shared server.
    def lock_name = "example #{SecureRandom.hex(8)}"

    def running?(pid)
      Process.kill(0, pid)
      !File.read("/proc/#{pid}/stat").match?(/\) [ZX] /)
    rescue Errno::ESRCH, Errno::ENOENT
      false
    end

    def expect_gone(*pids, within: 5.0)
      pids.each { |pid| eventually(within, "process #{pid} lives on") { !running?(Integer(pid)) } }
    end
  end
end
