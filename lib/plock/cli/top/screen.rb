# frozen_string_literal: true

require "curses"
require "io/console"

module Plock
  module CLI
    module Top
      # The terminal, through curses. Curses knows each kind of terminal, and sends only what has
      # changed.
      class Screen
        ESCAPE_MS = 50 # the wait after an Esc for the rest of a function key's code
        NAMES = {
          Curses::KEY_UP => :up, Curses::KEY_DOWN => :down, Curses::KEY_PPAGE => :page_up,
          Curses::KEY_NPAGE => :page_down, Curses::KEY_HOME => :first, Curses::KEY_END => :last,
          Curses::KEY_ENTER => :enter, Curses::KEY_BACKSPACE => :backspace, "\r" => :enter,
          "\n" => :enter, "\e" => :escape, "\b" => :backspace, "\u007F" => :backspace,
          "\f" => :redraw
        }.freeze
        private_constant :ESCAPE_MS, :NAMES

        def initialize
          Curses.init_screen
          Curses.cbreak
          Curses.noecho
          Curses.curs_set(0)
          Curses.ESCDELAY = ESCAPE_MS
          @window = Curses.stdscr
          @window.keypad(true)
          @window.nodelay = true
          @styles = { plain: 0, strong: Curses::A_BOLD, selected: Curses::A_REVERSE }
          @styles.update(colours)
        end

        # @return [Array(Integer, Integer)] columns and lines
        def size = [Curses.cols, Curses.lines]

        # Called after the size of the terminal has changed.
        def resize
          lines, columns = IO.console&.winsize
          Curses.resizeterm(lines, columns) if lines&.positive? && columns&.positive?
          @window.clear
        end

        # @param lines [Array<Array(String, Symbol)>] texts and their styles, from the top
        def show(lines)
          @window.erase
          lines.first(Curses.lines).each_with_index do |(text, style), row|
            @window.setpos(row, 0)
            @window.clrtoeol # the line above may have been too long, and have run into this one
            @window.attrset(@styles.fetch(style))
            @window.addstr(encoded(text[0, Curses.cols]))
          end
          @window.attrset(0)
          @window.refresh
        end

        # @return [Array<Symbol, String, Integer>] the keys that were typed: a Symbol from NAMES, a
        #   character, or the number that curses gives to any other key
        def typed
          keys = []
          while (key = @window.get_char)
            keys << NAMES.fetch(key, key)
          end
          @window.clear if keys.include?(:redraw)
          keys
        end

        def close = Curses.close_screen

        private

        # Without colours if the user sets NO_COLOR (https://no-color.org).
        def colours
          plain = { title: Curses::A_BOLD, alarm: Curses::A_BOLD, waited: Curses::A_BOLD }
          return plain unless Curses.has_colors? && ENV["NO_COLOR"].to_s.empty?

          Curses.start_color
          Curses.use_default_colors
          Curses.init_pair(1, Curses::COLOR_RED, -1)
          Curses.init_pair(2, Curses::COLOR_YELLOW, -1)
          plain.merge(alarm: Curses.color_pair(1) | Curses::A_BOLD,
                      waited: Curses.color_pair(2) | Curses::A_BOLD)
        end

        def encoded(text)
          text.encode(Encoding.find("locale"), invalid: :replace, undef: :replace, replace: "?")
        end
      end
    end
  end
end
