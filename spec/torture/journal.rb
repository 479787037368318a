# frozen_string_literal: true

require_relative "basics"

module Torture
  # The record of one lane, in memory that is mapped from a file, so that a killed process loses
  # no written record. Writing makes no system call, and switches no thread or fiber. Each journal
  # has one writer.
  class Journal
    KINDS = %i[hole ask enter check leave end inherited gap inventory child compact
               downgrade unreleased lost unextended handed adopts watched].freeze
    NUMBERS = KINDS.each_with_index.to_h.freeze
    # In bytes: the kind, the time and six more numbers. It is a power of two, so that no record
    # spans two pages.
    RECORD = 64
    PAGE = 8_192 # records in a file
    SMALL_PAGE = 256 # records in a file of a worker with many lanes

    def initialize(folder, name, page: PAGE)
      @records = page
      @path = File.join(folder, name)
      @pid = Process.pid
      @pages = 0
      turn_page
    end

    # Does nothing in a forked child, because the lane belongs to the parent.
    def write(kind, *numbers)
      return unless Process.pid == @pid

      at = Clock.now
      turn_page if @used == @records
      offset = @used * RECORD
      # This must come first. If an exception interrupts the rest, the record then stays empty, and
      # no later record takes its place.
      @used += 1
      @page.set_value(:S64, offset + 8, at)
      numbers.each_with_index { |number, i| @page.set_value(:S64, offset + 16 + (8 * i), number) }
      @page.set_value(:S64, offset, NUMBERS.fetch(kind)) # last: now the record counts
    end

    # Yields the kind, time and numbers of each record, in the order in which they were written.
    def self.read(path)
      words = RECORD / 8
      File.binread(path).unpack("q>*").each_slice(words) do |kind, at, *numbers|
        yield KINDS.fetch(kind), at, numbers unless kind.zero?
      end
    end

    private

    def turn_page
      File.open("#{@path}.#{@pages}", File::RDWR | File::CREAT | File::EXCL) do |file|
        file.truncate(@records * RECORD)
        @page = IO::Buffer.map(file, @records * RECORD)
      end
      @pages += 1
      @used = 0
    end
  end
end
