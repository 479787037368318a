# frozen_string_literal: true

RSpec.describe Plock::Error do
  classes = %i[
    TimeoutError
    UnavailableError
    LeaseLost
    AuthenticationError
    PermissionError
    ProtocolError
    ConfigurationError
    UnsupportedError
  ]
  unavailable = %i[StoreFullError]

  it "is the root of all errors about locks and stores" do
    expect(described_class.superclass).to be(StandardError)
    expect(classes.map { |name| Plock.const_get(name).superclass }).to all(be(described_class))
    expect(unavailable.map { |name| Plock.const_get(name).superclass }).to all(
      be(Plock::UnavailableError)
    )
  end

  it "has no other descendants" do
    descendants = Plock.constants.map { |name| Plock.const_get(name) }
                       .select { |constant| constant.is_a?(Class) && constant < described_class }
    expect(descendants).to match_array(
      [*classes, *unavailable].map { |name| Plock.const_get(name) }
    )
  end

  it "carries a message and the engine's name for what happened" do
    error = Plock::UnavailableError.new("no answer", code: :connect)
    expect([error.message, error.code]).to eq(["no answer", :connect])
  end

  it "can be raised without either" do
    expect { raise Plock::TimeoutError }.to raise_error(Plock::TimeoutError) { |error|
      expect(error.code).to be_nil
    }
  end

  {
    Plock::ConfigurationError => :bad_config,
    Plock::UnsupportedError => :unsupported,
    Plock::PermissionError => :permission
  }.each do |kind, code|
    it "has the code :#{code} as a #{kind} that is raised without one" do
      expect(kind.new("no")).to have_attributes(code: code, message: "no")
      expect(kind.new("no", code: :other).code).to be(:other)
    end
  end

  it "keeps its code when raised again with another message" do
    error = Plock::UnavailableError.new("no answer", code: :connect)
    expect(error.exception("still no answer")).to have_attributes(
      code: :connect, message: "still no answer"
    )
  end
end
