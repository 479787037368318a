# frozen_string_literal: true

require "stringio"

module Plock
  module CLI
    # Replaces the standard error stream while a command runs. A separate thread writes to the
    # stream, because a write may hang if a pipe is full or if Ctrl-S has stopped the terminal. Even
    # then, plock must end the command if the lease is lost.
    #
    # StringIO has the other methods of a stream; its print, printf and << call {#write}.
    class Scribe < StringIO
      ROOM = 1000 # texts that can wait to be written; further texts are dropped
      PATIENCE_S = 2.0 # seconds for writing the rest at the end
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

      def initialize(stream)
        super()
        @stream = stream
        @texts = Thread::SizedQueue.new(ROOM)
        @thread = Thread.new { write_down }
      end

      # @param texts [Array<#to_s>]
      # @return [Integer] the number of bytes, as IO#write returns it
      def write(*texts)
        texts.sum do |text|
          text = String.new(text.to_s) # a copy, since the caller may change it
          @texts.push(text, true)
          text.bytesize
        end
      rescue ThreadError, ClosedQueueError
        0
      end

      # Writes all lines as one text, so that no other thread's text comes between them.
      def puts(*texts)
        write(StringIO.new.tap { |whole| whole.puts(*texts) }.string)
        nil
      end

      # Like IO#putc; that of StringIO does not call {#write}.
      def putc(character)
        write(StringIO.new.tap { |whole| whole.putc(character) }.string)
        character
      end

      # Does nothing. A logger that is being closed calls this method.
      def close = nil

      # Waits until the texts are written, but no longer than PATIENCE_S, because the stream's
      # reader may hang.
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
            next # the stream may be closed
          end
        end
      end
    end
  end
end
