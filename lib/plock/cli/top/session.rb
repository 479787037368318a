# frozen_string_literal: true

require "io/wait"
require "stringio"
require_relative "board"
require_relative "screen"

module Plock
  module CLI
    module Top
      # Runs a {Board} on the terminal until a key or a signal ends it. Another thread asks the
      # store, so that keys still work while the store does not answer.
      class Session
        # The letters that the signal handlers send to the terminal's thread. TSTP is in the list
        # because curses' own handler would interfere with that thread. CONT has the same letter as
        # WINCH because the size of the terminal may have changed while the process was stopped.
        SIGNALS = { "INT" => "q", "TERM" => "q", "HUP" => "q", "WINCH" => "r", "CONT" => "r",
                    "TSTP" => "z" }.freeze
        QUICK_S = 0.1    # seconds between two updates while the survey is not complete
        EMPTY_READS = 3  # the terminal is gone after this many empty reads in a row
        LAST_NOTES = 20  # number of lines of the library's warnings that are printed at the end
        OUTCOMES = {
          broken: "The lock was broken.",
          changed: "The holder has changed since you asked. Nothing was done.",
          free: "No process held it any more."
        }.freeze
        private_constant :SIGNALS, :QUICK_S, :EMPTY_READS, :LAST_NOTES, :OUTCOMES

        # @param interval [Float] seconds between two updates from the store
        def initialize(survey, store, interval, read_only: false)
          @survey = survey
          @store = store
          @interval = interval
          @board = Board.new(title, read_only: read_only)
          @news = Queue.new
          @wakes, @wake = IO.pipe
          @asks, @ask = IO.pipe
        end

        # @raise [UnsupportedError] the store cannot list its keys
        def run
          with_signals do
            with_screen do
              draw
              looker = Thread.new { look }
              watch
            ensure
              looker&.kill
            end
          end
        end

        private

        def title
          namespace = @store.config.namespace unless @survey.all_namespaces?
          [@store.url, namespace].compact.join("  ")
        end

        # --- the terminal's thread ---

        def watch
          empty = 0
          until @over
            readable, = IO.select([$stdin, @wakes])
            heed(@wakes.read_nonblock(256)) if readable.include?(@wakes)
            if readable.include?($stdin)
              keys = @screen.typed
              empty = keys.empty? ? empty + 1 : 0
              @over = true if empty == EMPTY_READS
              press(keys - [:redraw])
            end
            draw
          end
        end

        # If a key opens a question, drops the keys after it, because the user typed them before
        # the question was shown.
        def press(keys)
          keys.each do |key|
            obey(@board.press(key))
            break if @board.asks?
          end
        end

        def heed(words)
          @over = true if words.include?("q")
          suspend if words.include?("z") && !@over
          @screen.resize if words.include?("r")
          take(@news.pop) until @news.empty?
        end

        # Gives the terminal back, and stops the process until the shell continues it.
        def suspend
          @screen.close
          handler = trap("TSTP", "DEFAULT")
          Process.kill(:TSTP, Process.pid)
          trap("TSTP", handler)
          @screen.resize
        end

        def take(news)
          raise news if news.is_a?(UnsupportedError)
          return @board.fail(news) if news.is_a?(Error)

          filter, snapshot, named, asked, found = news
          @board.update(snapshot, filter == @board.filter ? named : [])
          @board.refresh(asked, found)
        end

        def obey(order)
          case order
          when :quit then @over = true
          when Array then break_lock(order.last)
          end
          @wanted = [@board.filter, @board.shown]
          @ask.write_nonblock(".", exception: false)
        end

        def break_lock(status)
          seen = Survey.holders_digest(status)
          outcome, = Survey.break_seen(@store, status.store_key, seen)
          @board.note(OUTCOMES.fetch(outcome))
        rescue Error => e
          @board.note(e.message)
        end

        def draw
          @screen.show(@board.lines(*@screen.size))
          @wanted = [@board.filter, @board.shown]
        end

        # --- the thread that asks the store ---

        def look
          loop do
            @news << (news = found)
            @wake.write_nonblock(".", exception: false)
            quick = news.is_a?(Array) && !news[1].complete?
            @asks.read_nonblock(256) if @asks.wait_readable(quick ? QUICK_S : @interval)
          end
        end

        def found
          filter, shown = @wanted
          snapshot = @survey.snapshot
          named = @survey.named(filter)
          [filter, snapshot, named, shown, @survey.refresh(shown)]
        rescue Error => e
          e
        end

        # --- signals and screen ---

        def with_signals
          before = SIGNALS.to_h do |name, word|
            [name, trap(name) { @wake.write_nonblock(word, exception: false) }]
          end
          yield
        ensure
          before&.each { |name, handler| trap(name, handler || "DEFAULT") }
        end

        # Keeps warnings back until the end, because they would spoil the screen.
        def with_screen
          outside = $stderr
          $stderr = StringIO.new if outside.tty?
          @screen = Screen.new
          yield
        ensure
          @screen&.close
          notes, $stderr = $stderr, outside
          $stderr.puts(notes.string.lines.last(LAST_NOTES)) if @over && notes.is_a?(StringIO)
        end
      end
    end
  end
end
