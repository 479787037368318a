# frozen_string_literal: true

module Support
  # Replaces a method of an object, for methods that background threads call.
  #
  # A partial double of RSpec raises if a thread calls it just when its example ends. After {undo},
  # a thread that is about to call the replacement calls the real method.
  class Replacement
    # @param only [Thread, nil] the thread whose calls are replaced; nil: all threads
    # @yield the real method, and the arguments; its value is the method's value
    def initialize(object, name, only: nil, &replacement)
      real = object.method(name)
      @name = name
      @methods = Module.new
      @methods.define_method(name) do |*arguments, **options, &block|
        if only && !only.equal?(Thread.current)
          real.call(*arguments, **options, &block)
        else
          replacement.call(real, *arguments, **options)
        end
      end
      object.singleton_class.prepend(@methods)
    end

    def undo = @methods.remove_method(@name)
  end
end
