# frozen_string_literal: true

module Plock
  module CLI
    # Collects the events of a running command: signals, and notices from other threads. Each
    # event is one byte in a pipe. A single thread reads the pipe and acts on the events.
    class Bell
      # The lease was lost. No signal has this number.
      LOST = 0

      # The signals that are passed on to the command. TTIN is one of them, because the system sends
      # it to the whole job if any process of a background job reads from the terminal. If TTIN
      # stopped only this process, the command would continue, but its lease would not be renewed.
      FORWARDED =
        %w[HUP INT QUIT TERM USR1 USR2 ALRM WINCH INFO TSTP TTIN]
          .select { |name| Signal.list.key?(name) }
          .freeze
      OWN = %w[CHLD CONT].freeze

      def initialize
        @reader, @writer = IO.pipe
        @before = {}
      end

      # Makes signals ring the bell from now on. A signal that was ignored at the start, as under
      # nohup(1), stays ignored.
      def listen
        (FORWARDED + OWN).each do |name|
          number = Signal.list.fetch(name)
          @before[name] = trap(name) { ring(number) }
          trap(name, "IGNORE") if @before[name] == "IGNORE" && FORWARDED.include?(name)
        end
        # writing a message must not stop this process, even if another group has the terminal
        @before["TTOU"] = trap("TTOU", "IGNORE")
      end

      def hush
        @before.each { |name, handler| trap(name, handler || "DEFAULT") }
        @before.clear
      end

      # Called from a signal handler, or another thread. If 64 thousand rings are still unread,
      # the pipe is full, and this ring is dropped.
      #
      # @param number [Integer] the signal, or LOST
      def ring(number) = @writer.write_nonblock(number.chr, exception: false)

      # @param seconds [Float, nil] how long to wait; nil: until the bell rings
      # @return [Array<Integer>] the events, as {#ring} got them; empty if the time is over
      def heard(seconds)
        return [] unless IO.select([@reader], nil, nil, seconds)

        @reader.read_nonblock(4096).bytes
      end
    end
  end
end
