# frozen_string_literal: true

require_relative "../adapters"

module Torture
  module Cluster
    # A store on a cluster. Its keys have short hash tags.
    class Product < Torture::Product
      BESIDE = /\Aplock:1:plock:v1:\{\h{8}\}\h{56}(?::\w+)?/.freeze
      private_constant :BESIDE

      def self.prefix = "plock:v1:{"
      def self.beside(key) = "plock:1:#{place(key)}"
      def self.lasting?(key) = key.match?(/#{BESIDE}:fence\z/)
      def self.note_of_node?(key) = key.match?(/#{BESIDE}:node\z/)
    end
  end
end
