# frozen_string_literal: true

require "io/console"
require "pty"
require "shellwords"
require "tempfile"
require_relative "examples"

module Support
  # Runs `plock` as typed in a shell, in a process of its own, with pipes or at a terminal.
  #
  #   out, err, status = plock("status", key)
  #   job = start_plock("run", key, "--", "sh", "-c", "echo $$ >&3; exec sleep 60")
  #   job.line                             # a line that the command wrote to descriptor 3
  #   job.signal(:TERM); job.finish.exitstatus
  module CommandLine
    ROOT = File.expand_path("../..", __dir__)
    DEADLINE = 20.0

    # The start of every command line: this Ruby, and the plock of this checkout.
    PROGRAM = [
      RbConfig.ruby,
      *[*ENV.fetch("RUBYLIB", "").split(File::PATH_SEPARATOR), "#{ROOT}/lib"].flat_map do |folder|
        ["-I", folder]
      end,
      "#{ROOT}/exe/plock"
    ].freeze

    # Removes the settings of this process's bundle.
    ENVIRONMENT = {
      "BUNDLER_SETUP" => nil, "RUBYOPT" => nil, "RUBYLIB" => nil, "NO_COLOR" => nil,
      "PLOCK_SECRET" => nil
    }.freeze

    # A command that runs with pipes.
    class Running
      include Patience

      attr_reader :pid, :out, :err, :told

      # input: should the command's standard input be a pipe? If so, #tell writes to that pipe.
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

      # The next line that the command writes to descriptor 3. Nil if the command has closed that
      # descriptor.
      def line(from = told)
        raise Child::Silent, "nothing heard" unless from.wait_readable(DEADLINE)

        from.gets&.chomp
      end

      def signal(name) = Process.kill(name, pid)

      # Waits until the command has ended. Then out and err can be read to the end, unless another
      # process still has them open.
      def finish(within: DEADLINE)
        eventually(within, "it does not end") do
          @status ||= Process.wait2(pid, Process::WNOHANG)&.last
        end
        Supervisor.forget(pid)
        @status
      end

      # @return [Array<String>] everything that the command still writes to out and err, until both
      #   are closed
      def said(within: DEADLINE)
        [out, err].map { |stream| Timeout.timeout(within) { stream.read } }
      end

      def close
        Process.kill(:KILL, pid) unless @status
        finish
        [out, err, told, @input].compact.each { |stream| stream.close unless stream.closed? }
      end
    end

    # A command that runs at a terminal.
    class Screen
      include Patience

      attr_reader :pid, :shown

      def initialize(command, env)
        @shown = +""
        # PTY calls setsid and sets the controlling terminal. Variables such as TERM are not
        # needed.
        @reader, @writer, @pid = PTY.spawn(env, *command)
        Supervisor.watch(@pid)
      end

      def type(text) = @writer.write(text)

      def hang_up = [@reader, @writer].each(&:close)

      def resize(lines, columns) = @reader.winsize = [lines, columns]

      # Waits until this text appears after the last match. Returns the text up to the end of the
      # new match.
      def await(pattern)
        @seen ||= 0
        instead = -> { "#{pattern.inspect} was not shown, but #{@shown[@seen..].inspect}" }
        eventually(DEADLINE, instead) do
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
        eventually(DEADLINE, -> { "it does not end, but shows #{@shown.inspect}" }) do
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

    # @return [Array] the output, the errors and the Process::Status of a command that has ended
    def plock(*arguments, env: {}, **options)
      running = start_plock(*arguments, env: env, **options)
      texts = running.said
      [*texts, running.finish]
    end

    # Runs plock in a process that has run the Ruby program before.
    def plock_after(program, *arguments)
      Tempfile.create(%w[before .rb]) do |file|
        file.write(program)
        file.flush
        plock(*arguments, env: { "RUBYOPT" => "-r#{file.path}" })
      end
    end

    # Starts plock in a terminal. The method `screen` starts any other command in one. That command
    # can run plock as $PLOCK.
    def type_plock(*arguments, env: {}) = screen(*PROGRAM, *arguments, env: env)

    # The command has a session of its own, and so an autogroup (sched(7)). On a busy machine, it
    # may have to wait for seconds until it runs, and so read the shared server's answer late.
    def screen(*command, env: {})
      environment =
        plock_environment(env).merge(
          "PLOCK" => PROGRAM.map { |word| Shellwords.escape(word) }.join(" ")
        )
      url = environment["PLOCK_URL"]
      environment["PLOCK_URL"] += "?attempt_timeout=10" if url == shared_redis.unix_url
      discard(Screen.new(command, environment), :close)
    end

    # The name of a lock on the shared server. No other example uses it.
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
