# frozen_string_literal: true

require "plock/errors"

module Plock
  # What lets a drop-in take the place of the gem whose API it has.
  module Compat
    # The gem's own require paths, such as `require "remote_lock"`, and the case that the gem is
    # there as well.
    #
    # @api private
    module StandIn
      FOLDER = File.expand_path("shims", __dir__)
      private_constant :FOLDER

      class << self
        # Makes sure that the constant is still to be defined, or plock's. Two implementations in
        # one class would be neither.
        #
        # @raise [UnsupportedError] it is defined elsewhere
        def claim(gem, constant)
          file = place_of(constant)
          return if file.nil? || file.start_with?("#{__dir__}/")

          raise UnsupportedError,
                "plock cannot stand in for the gem #{gem}: #{constant} is defined already, in " \
                "#{file}. Remove the gem #{gem} from the Gemfile, or give your own #{constant} " \
                "another name"
        end

        # From now on `require` of the gem's files finds plock's: they count as loaded, and lie at
        # the end of the load path.
        #
        # @param door [String] a folder of shims
        def open(door)
          folder = File.join(FOLDER, door)
          $LOAD_PATH << folder unless $LOAD_PATH.include?(folder)
          $LOADED_FEATURES.concat(Dir[File.join(folder, "**/*.rb")].sort - $LOADED_FEATURES)
        end

        private

        # @return [String, nil] the file that defines it, or from which it is loaded when it is
        #   named
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
