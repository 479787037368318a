# frozen_string_literal: true

module Plock
  module CLI
    # Colours, if the output is a terminal and the user wants them (https://no-color.org).
    module Paint
      CODES = { red: 31, green: 32, yellow: 33 }.freeze
      private_constant :CODES

      class << self
        def colour(text, name) = colours? ? "\e[#{CODES.fetch(name)}m#{text}\e[0m" : text

        private

        def colours? = $stdout.tty? && ENV["NO_COLOR"].to_s.empty? && ENV["TERM"] != "dumb"
      end
    end
  end
end
