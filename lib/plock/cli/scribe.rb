# frozen_string_literal: true

require "stringio"

module Plock
  module CLI
    # Stands in for the standard error stream while a command runs. A thread of its own writes, so
    # no other thread waits for the reader of the stream. That may hang: a pipe can be full, and
    # Ctrl-S stops a terminal. The loss of a lease must end the command even then.
    class Scribe
      ROOM = 1000 # texts that are not written yet; further ones are dropped
      PATIENCE_S = 2.0 # at the end
      private_constant :ROOM, :PATIENCE_S

      # @yield while $stderr is a scribe
      # @return [Object] the block's value
      def self.during
        stream = $stderr
        $stderr = scribe = new(stream)
        yield
      ensure
        $stderr = stream
        scribe&.finish
      end

      # @param stream [#write]
      def initialize(stream)
        @stream = stream
        @texts = Thread::SizedQueue.new(ROOM)
        @thread = Thread.new { write_down }
      end

      # @param texts [Array<#to_s>]
      # @return [Integer] bytes, as IO#write
      def write(*texts)
        texts.sum do |text|
          text = String.new(text.to_s) # the caller may change it
          @texts.push(text, true)
          text.bytesize
        end
      rescue ThreadError, ClosedQueueError
        0
      end

      # @param texts [Array<Object>] as for IO#puts
      # @return [nil]
      def puts(*texts)
        write(StringIO.new.tap { |whole| whole.puts(*texts) }.string)
        nil
      end

      # As IO#printf.
      #
      # @return [nil]
      def printf(format, *values)
        write(format(format, *values)) && nil
      end

      alias print write

      # @return [self]
      def <<(text)
        write(text)
        self
      end

      # @return [Boolean] colours are for the stream itself
      def tty? = false
      alias isatty tty?

      # @return [Boolean]
      def sync = true

      # Has no effect.
      def sync=(_wanted); end

      # A logger asks for it.
      #
      # @return [nil]
      def close = nil

      # Kernel#fork calls it.
      #
      # @return [self]
      def flush = self

      # Gives a reader that is slow some time, and gives up one that hangs.
      def finish
        @texts.close
        @thread.join(PATIENCE_S)
      end

      private

      def write_down
        while (text = @texts.pop)
          begin
            @stream.write(text)
          rescue SystemCallError, IOError
            next # it may be closed
          end
        end
      end
    end
  end
end
