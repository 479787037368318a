# frozen_string_literal: true

require "ripper"

module Support
  # Reads a Ruby file, and finds the constants that the file defines and those that it mentions.
  class Constants
    # @return [Array<String>] the names of modules, classes, values and autoloads that the file
    #   defines
    attr_reader :defined

    # @return [Array(Array(String, Integer))] names without a leading `::`, each with its line. Ruby
    #   looks up such a name from the place where it occurs.
    attr_reader :bare

    # @return [Array<String>] names that Ruby looks up at the top level, because they begin with
    #   `::`
    attr_reader :absolute

    # @param source [String]
    def initialize(source)
      @defined = []
      @bare = []
      @absolute = []
      walk(Ripper.sexp(source) || raise(ArgumentError, "this is no Ruby"))
    end

    # @return [Array<String>] all names that the file mentions
    def mentioned = (@bare.map(&:first) + @absolute).uniq

    private

    def walk(node)
      return unless node.is_a?(Array)

      case node.first
      when :class, :module then define(node[1])
      when :assign, :opassign, :massign then define(node[1])
      when :var_ref then look_up(node[1])
      when :top_const_ref then @absolute << node[1][1]
      when :command, :command_call then remember_autoload(node)
      end
      inner(node).each { |child| walk(child) }
    end

    # The name in a definition does not count as a mention.
    def inner(node)
      node.first == :const_ref || node.first == :var_field ? [] : node
    end

    def define(target)
      name = target.is_a?(Array) && %i[const_ref var_field].include?(target.first) && target[1]
      @defined << name[1] if name && name.first == :@const
    end

    def look_up(name)
      @bare << [name[1], name[2].first] if name.is_a?(Array) && name.first == :@const
    end

    # Counts the name in `autoload :Name, path` as defined.
    def remember_autoload(node)
      return unless node[1].is_a?(Array) && node[1][1] == "autoload"

      symbol = node.flatten.each_cons(2).find { |kind, _name| kind == :@const }
      @defined << symbol[1] if symbol
    end
  end
end
