# frozen_string_literal: true

require "moneta"

RSpec.describe Plock::ClientAddress::MonetaChain do
  def chain(store) = described_class.new(store)

  def redis(**options) = Moneta.new(:Redis, host: "db1.example", **options)

  it "finds the adapter at the bottom" do
    expect(chain(redis(threadsafe: true)).adapter).to be_a(Moneta::Adapters::Redis)
    expect(chain(Moneta.new(:Memory, expires: true)).adapter.class.name).to eq(
      "Moneta::Adapters::Memory"
    )
  end

  it "treats an object without an adapter as the bottom" do
    object = Object.new
    expect(chain(object).adapter).to be(object)
  end

  it "ends if a store is its own adapter, or a chain has no end" do
    own = Struct.new(:adapter).new
    own.adapter = own
    expect(chain(own).adapter).to be(own)

    endless = Class.new { def adapter = self.class.new }
    expect(chain(endless.new).adapter).to be_a(endless)
  end

  it "knows Redis at the bottom" do
    expect(chain(redis)).to be_redis
    expect(chain(Moneta.new(:Memory))).not_to be_redis
  end

  {
    "as Moneta makes it" => [{}, :marshal],
    "with a mutex around it" => [{ threadsafe: true }, :marshal],
    "with a lifetime for its values" => [{ expires: 60 }, :marshal],
    "with values as they are" => [{ value_serializer: nil }, :plain],
    "without serializers" => [{ serializer: nil }, :plain],
    "with keys as they are" => [{ key_serializer: nil }, :marshal],
    "with compressed values" => [{ compress: true }, nil],
    "with values in another serialization" => [{ value_serializer: :yaml }, nil],
    "with keys in another serialization" => [{ key_serializer: :yaml }, nil],
    "with a prefix before its keys" => [{ prefix: "app:" }, nil]
  }.each do |what, (options, encoding)|
    it "says #{encoding.inspect} of a store #{what}" do
      expect(chain(redis(**options)).encoding).to be(encoding)
    end
  end

  it "says :plain of the adapter alone" do
    expect(chain(Moneta.build { adapter :Redis, host: "db1.example" }).encoding).to be(:plain)
  end

  it "says nil if options are merged into each call" do
    expect(chain(redis.with(raw: true)).encoding).to be_nil
  end

  it "says nil if values are serialized twice" do
    twice = Moneta.build do
      use :Transformer, value: :marshal
      use :Transformer, value: :marshal
      adapter :Redis, host: "db1.example"
    end
    expect(chain(twice).encoding).to be_nil
  end
end
