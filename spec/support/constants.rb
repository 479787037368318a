# frozen_string_literal: true

require "ripper"

module Support
  # The constants that a file of Ruby defines, and those that it mentions, read from its text.
  class Constants
    # @return [Array<String>] names that the file defines: modules, classes, values, autoloads
    attr_reader :defined

    # @return [Array(Array(String, Integer))] names that are looked up from where they stand,
    #   without `::` or another name before them, each with its line
    attr_reader :bare

    # @return [Array<String>] names that begin at the top level, by `::`
    attr_reader :absolute

    # @param source [String]
    def initialize(source)
      @defined = []
      @bare = []
      @absolute = []
      walk(Ripper.sexp(source) || raise(ArgumentError, "this is no Ruby"))
    end

    # @return [Array<String>] all that are looked up
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

    # A definition's own name is no mention of it.
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

    # `autoload :Name, path`
    def remember_autoload(node)
      return unless node[1].is_a?(Array) && node[1][1] == "autoload"

      symbol = node.flatten.each_cons(2).find { |kind, _name| kind == :@const }
      @defined << symbol[1] if symbol
    end
  end
end
