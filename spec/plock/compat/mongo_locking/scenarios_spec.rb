# frozen_string_literal: true

require "spec_helper"
require "tmpdir"
require_relative "models"
require_relative "stand_in"

# The four scenarios of Mongo::Locking, each with several processes.
RSpec.describe "Scenarios of Mongo::Locking" do
  let(:folder) do
    Dir.mktmpdir("plock-mongo").tap { |path| discard(-> { FileUtils.rm_rf(path) }, :call) }
  end
  let(:order) { MongoModels::Order.new(SecureRandom.hex(4)) }
  let(:item) { MongoModels::OrderItem.new(1, order) }
  let(:flow) { MongoModels::JobFlow.new(item) }

  before do
    folder # made before the forks, so that all processes use the same folder
    Mongo::Locking.configure(**where)
  end

  after do
    Mongo::Locking.configure(store: nil)
  end

  # A process that holds the lock until the example sends it a message.
  def holder(instance)
    order # made before the fork, so that both processes lock the same order
    child do |parent|
      instance.lock do
        parent.tell(:holds)
        parent.hear
      end
    end.tap(&:hear)
  end

  def asker(instance) =
    child { |_| instance.lock(max_retries: 9, max_retry_interval: 2) { monotonic } }

  def refused(instance)
    in_child do |_|
      expect { instance.lock(max_retries: 2) { raise "entered" } }.to(
        raise_error(Mongo::Locking::LockTimeout)
      ) && nil
    end
  end

  shared_examples "the scenarios" do
    {
      "the same object" => %i[order order], "the root is held, and a child asks" => %i[order item],
      "a child holds, and a child asks" => %i[item item],
      "a grandchild holds, and a child asks" => %i[flow item]
    }.each do |name, (held, asked)|
      it "#{name}: one after the other" do
        first = holder(public_send(held))
        refused(public_send(asked))
        second = asker(public_send(asked))
        left = monotonic
        first.tell(:leave)
        first.result
        expect(second.result).to be > left
        expect(in_child { |_| Mongo::Locking.locks.map(&:key) }).not_to include(order.id)
      end
    end

    it "nested: both blocks run, and others wait for the outer one" do
      order
      nested = child do |parent|
        order.lock do
          order.lock { parent.tell(:inside) }
          parent.hear
          :done
        end
      end
      expect(nested.hear).to be :inside
      refused(order)
      nested.tell(:leave)
      expect(nested.result).to be :done
      expect(in_child { |_| order.lock(max_retries: 1) { :free } }).to be :free
    end

    it "a holder that dies: the next one has the lock after max_lifetime" do
      order
      first = child { |parent| order.lock(max_lifetime: 1) { parent.tell(:holds) && sleep } }
      first.hear
      first.signal(:KILL)
      expect(
        in_child { |_| item.lock(max_retries: 9, max_retry_interval: 2) { :mine } }
      ).to be :mine
    end

    it "8 processes that count lose nothing" do
      counter = "#{folder}/counter"
      File.write(counter, "0")
      order
      Array.new(8) do
        child do |_|
          5.times do
            item.lock(max_retries: 12) { File.write(counter, Integer(File.read(counter)) + 1) }
          end
        end
      end.each(&:result)
      expect(File.read(counter)).to eq "40"
    end
  end

  context "in Redis", needs: "redis-server" do
    let(:where) { { store: shared_redis.url } }

    include_examples "the scenarios"
  end

  context "in a local store" do
    let(:where) { { store: "local:#{folder}/locks" } }

    include_examples "the scenarios"
  end

  {
    "today's driver" => StandIn::Collection,
    "the driver of the gem's time" => StandIn::OldCollection
  }.each do |name, type|
    context "in a collection, by #{name}" do
      let(:where) { { collection: -> { type.new(StandIn::Server.new("#{folder}/documents")) } } }

      include_examples "the scenarios"
    end
  end
end
