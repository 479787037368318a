# frozen_string_literal: true

require "plock/errors"

module Plock
  # Support for drop-in replacements of other gems.
  #
  # @api private
  module Compat
    # Makes a line such as `require "remote_lock"` work without the replaced gem. Raises if that
    # gem itself is loaded.
    module StandIn
      FOLDER = File.expand_path("shims", __dir__)
      private_constant :FOLDER

      class << self
        # Checks that the constant is not defined yet, or that plock defines it. Two
        # implementations must not share one class.
        #
        # @raise [UnsupportedError] another file defines it
        def claim(gem, constant)
          file = place_of(constant)
          return if file.nil? || file.start_with?("#{__dir__}/")

          raise UnsupportedError,
                "plock cannot stand in for the gem #{gem}: #{constant} is defined already, in " \
                "#{file}. Remove the gem #{gem} from the Gemfile, or give your own #{constant} " \
                "another name"
        end

        # Makes `require` of the gem's files do nothing, even if the gem is installed. Ruby finds
        # plock's shims in the load path, and they are listed as loaded already.
        #
        # @param door [String] the name of a folder of shims
        def open(door)
          folder = File.join(FOLDER, door)
          $LOAD_PATH << folder unless $LOAD_PATH.include?(folder)
          $LOADED_FEATURES.concat(Dir[File.join(folder, "**/*.rb")].sort - $LOADED_FEATURES)
        end

        private

        # @return [String, nil] the file that defines the constant, or that its autoload names; nil
        #   if the constant is not defined
        def place_of(constant)
          file = nil
          constant.split("::").inject(::Object) do |outer, name|
            autoloaded = outer.autoload?(name, false)
            return autoloaded if autoloaded
            return unless outer.const_defined?(name, false)

            file = outer.const_source_location(name, false)&.first
            outer.const_get(name, false)
          end
          file
        end
      end
    end
  end
end
