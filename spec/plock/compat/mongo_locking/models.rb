# frozen_string_literal: true

require "plock/compat/mongo_locking"

# Objects with parents: an Order has N OrderItems, which share one JobFlow.
module MongoModels
  class Order
    include Mongo::Locking

    attr_reader :id

    def initialize(id) = @id = id

    lockable!(first_retry_interval: 0.05)
  end

  class BigOrder < Order
  end

  class OrderItem
    include Mongo::Locking

    attr_reader :id, :order

    def initialize(id, order)
      @id = id
      @order = order
    end

    locked_by! :order
  end

  class JobFlow
    include Mongo::Locking

    attr_reader :item

    def initialize(item) = @item = item

    locked_by! { |me| me.item }
  end

  # A node may have another node as its parent.
  class Node
    include Mongo::Locking

    attr_reader :id
    attr_accessor :up

    def initialize(id, up = nil)
      @id = id
      @up = up
    end

    locked_by! :up
  end
end
