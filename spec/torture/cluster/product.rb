# frozen_string_literal: true

require_relative "../adapters"

module Torture
  module Cluster
    # The keys of a store on a cluster have short hash tags.
    class Product < Torture::Product
      def self.prefix = "plock:v1:{"
      def self.beside(key) = "plock:1:#{place(key)}"
    end
  end
end
